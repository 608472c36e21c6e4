/* SPDX-License-Identifier: Apache-2.0
 *
 * The container: how a shared object says what it is, what it needs and what it offers. A module exports exactly one
 * symbol, sl_module_query, and everything else goes through the tables it returns.
 *
 * Life: loaded (query) -> bound (requirements found) -> active (open) -> quiescing -> unloaded (close). */
#ifndef SL_MODULE_H
#define SL_MODULE_H

#include "sl_host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_MODULE_MAGIC 0x444f4d474e494c53ull /* "SLINGMOD", little-endian */
#define SL_CONTAINER_VERSION 1u

typedef struct sl_instance_t sl_instance_t; /* one opened module; defined by the module */

/* What the kernel says first. */
typedef struct sl_hello_t {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t magic;         /* SL_MODULE_MAGIC */
  uint32_t container_min; /* container versions the kernel speaks */
  uint32_t container_max;
  const char* kernel_version;  /* "0.1.0" */
  const char* kernel_build_id; /* interfaces still in draft work only with the build they were compiled with */
} sl_hello_t;

typedef uint32_t sl_option_type_t;
#define SL_OPTION_BOOL 0u
#define SL_OPTION_INT 1u
#define SL_OPTION_FLOAT 2u
#define SL_OPTION_STRING 3u
#define SL_OPTION_CHOICE 4u /* a string out of `choices` */

/* One option; profile checking, `starling modules --describe` and the reference page are made from these. */
typedef struct sl_option_t {
  uint32_t struct_size;
  sl_option_type_t type;
  const char* name;         /* snake_case with a unit suffix, e.g. "spin_us" */
  const char* unit;         /* "" when none */
  const char* doc;          /* one line */
  const char* default_text; /* as it would stand in TOML, without quotes */
  double minimum;           /* INT and FLOAT, inclusive */
  double maximum;
  const char* choices; /* CHOICE: comma-separated */
} sl_option_t;

/* The effective value of one option, in the order of the module's option table. */
typedef struct sl_option_value_t {
  uint32_t struct_size;
  sl_option_type_t type;
  int64_t integer;  /* BOOL (0 or 1) and INT */
  double real;      /* FLOAT */
  const char* text; /* STRING and CHOICE; copied by the module if it outlives open() */
} sl_option_value_t;

/* An interface by id ("sl.transport/1") and revision. The number after '/' is the major version: another number is
 * another interface. Revisions within it only append. */
#define SL_INTERFACE_LAYER 1u      /* decorates: the module also requires the same id, and wraps what it gets */
#define SL_INTERFACE_ON_REQUEST 2u /* used only when the profile names the module */
typedef struct sl_provide_t {
  uint32_t struct_size;
  uint32_t flags;
  const char* id;
  uint32_t revision;     /* highest revision the table serves */
  uint32_t revision_min; /* lowest revision a user may speak to it */
  const void* ops;       /* the table, const; its first member is its struct_size */
  const char* name;      /* what a profile calls this provider, e.g. "ring"; unique per id; usually the module's name */
} sl_provide_t;

#define SL_REQUIRE_OPTIONAL 1u
typedef struct sl_require_t {
  uint32_t struct_size;
  uint32_t flags;
  const char* id;
  uint32_t revision_min;
  uint32_t revision_max;
} sl_require_t;

/* A requirement that was met: another module's table, already overlaid on stubs, and its instance. */
typedef struct sl_binding_t {
  uint32_t struct_size;
  uint32_t revision; /* negotiated: the highest both sides speak */
  const char* id;
  const void* ops; /* NULL: an optional requirement that nobody provides */
  sl_instance_t* instance;
} sl_binding_t;

typedef struct sl_open_args_t {
  uint32_t struct_size;
  uint32_t option_count;
  const sl_option_value_t* const* options; /* one for each declared option, in order; effective values */
  uint32_t binding_count;
  uint32_t reserved;
  const sl_binding_t* const* bindings; /* one for each requirement, in order */
} sl_open_args_t;

/* What a module is. Constant data; the arrays hold pointers, so that their elements may grow. */
typedef struct sl_module_t {
  uint32_t struct_size;
  uint32_t container_version; /* the version this struct follows, within the hello's range */
  uint64_t magic;             /* SL_MODULE_MAGIC */
  const char* name;           /* the file's stem, e.g. "transport-shm" */
  const char* version;        /* semantic version, "1.2.0" */
  const char* vendor;
  const char* summary;  /* one line */
  const char* build_id; /* of the ABI headers compiled with, SL_ABI_BUILD_ID; checked for draft interfaces */
  const sl_option_t* const* options;
  const sl_provide_t* const* provides;
  const sl_require_t* const* requirements;
  uint32_t option_count;
  uint32_t provide_count;
  uint32_t require_count;
  uint32_t reserved;

  /* Makes the instance; mandatory. Acquires everything the module holds per process.
   * thread: [init]   blocking: may read files and devices
   * owns: borrows `args`; `host` and the bindings stay valid until close() returns
   * returns: SL_OK | SL_ERR_NOT_FOUND the hardware is absent | SL_ERR_CONFIG options contradict   since: container 1 */
  sl_status_t (*open)(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance);

  /* Refuses new work and returns when nothing references the module any more: no callback, kernel, graph, memory.
   * thread: [control]   blocking: until `deadline_ns`
   * returns: SL_OK | SL_ERR_TIMEOUT with the holder named in the error text   since: container 1 */
  sl_status_t (*quiesce)(sl_instance_t* instance, uint64_t deadline_ns);

  /* Frees the instance; mandatory. After it: no thread, descriptor or mapping of the module is left.
   * thread: [control], after quiesce   blocking: briefly   owns: frees `instance`   since: container 1 */
  void (*close)(sl_instance_t* instance);
} sl_module_t;

/* Container version 1, closed: what is added later comes behind these sizes. */
#define SL_HELLO_SIZE_1_0 40u
#define SL_OPTION_SIZE_1_0 64u
#define SL_OPTION_VALUE_SIZE_1_0 32u
#define SL_PROVIDE_SIZE_1_0 40u
#define SL_REQUIRE_SIZE_1_0 24u
#define SL_BINDING_SIZE_1_0 32u
#define SL_OPEN_ARGS_SIZE_1_0 32u
#define SL_MODULE_SIZE_1_0 120u
SL_ASSERT_SIZE(sl_hello_t, SL_HELLO_SIZE_1_0);
SL_ASSERT_SIZE(sl_option_t, SL_OPTION_SIZE_1_0);
SL_ASSERT_SIZE(sl_option_value_t, SL_OPTION_VALUE_SIZE_1_0);
SL_ASSERT_SIZE(sl_provide_t, SL_PROVIDE_SIZE_1_0);
SL_ASSERT_SIZE(sl_require_t, SL_REQUIRE_SIZE_1_0);
SL_ASSERT_SIZE(sl_binding_t, SL_BINDING_SIZE_1_0);
SL_ASSERT_SIZE(sl_open_args_t, SL_OPEN_ARGS_SIZE_1_0);
SL_ASSERT_SIZE(sl_module_t, SL_MODULE_SIZE_1_0);

/* Identifies the draft headers a module was compiled with; stable interfaces do not look at it. */
#define SL_ABI_BUILD_ID "2026-11-draft-21"

/* The one exported symbol. Pure: no allocation, thread, descriptor or log; the answer is constant.
 * thread: [any]   blocking: never   owns: borrows `hello`; the answer lives as long as the file is loaded
 * returns: SL_OK | SL_ERR_UNSUPPORTED the container ranges do not meet   since: container 1 */
typedef sl_status_t (*sl_module_query_fn)(const sl_hello_t* hello, const sl_module_t** out_module);
SL_EXPORT sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module);

#ifdef __cplusplus
}
#endif
#endif
