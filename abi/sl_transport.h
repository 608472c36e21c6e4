/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.transport/1: ports, connections, one-sided put with a signal. A connection is one stream or queue pair; ordering
 * over several, credits and retransmission belong to the kernel's links.
 *
 * Model. Each end of a connection owns a window: bytes that the other end may write, and signal words that follow
 * them. put() writes into the peer's window, or into memory that the peer registered, and stores a signal after the
 * bytes. Nothing a transport does blocks. Calls on a connection may overlap calls on its transport and on its other
 * connections; retire() counts as a call on both.
 *
 * Order. Signals of one connection appear in the order of their calls. Who reads a signal, with acquire, sees the bytes
 * of its put, of every put before it on the connection, and what was stored through window.peer before the call.
 * Nothing is promised of bytes that no signal followed, nor between connections. A device other than the CPU needs
 * flush() besides. */
#ifndef SL_TRANSPORT_H
#define SL_TRANSPORT_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_TRANSPORT_ID "sl.transport/1"
#define SL_TRANSPORT_REVISION 1u

typedef struct sl_transport_t sl_transport_t; /* one rank's use of the module */
typedef struct sl_connection_t sl_connection_t;
typedef struct sl_region_t sl_region_t;               /* registered local memory */
typedef struct sl_remote_region_t sl_remote_region_t; /* a peer's registered memory */

typedef struct sl_transport_env_t {
  uint32_t struct_size;
  uint32_t rank; /* of the communicator; names this end in messages */
  uint32_t size;
  uint32_t reserved;
  uint8_t job_secret[32]; /* both ends prove they know it before a connection is up */
  uint8_t host_id[16];    /* equal on ranks that share memory */
  /* Which interfaces the job may use, for transports whose own options do not say: comma-separated beginnings of names,
   * a leading '=' wants whole names, a leading '^' all but these. NULL or "": any. */
  const char* interfaces;
  uint32_t address_family; /* of the Internet protocol: 4, 6, or 0: any */
  uint32_t reserved2;
} sl_transport_env_t;

#define SL_PORT_UP 1u
#define SL_PORT_NEEDS_REGION 2u /* a put of more than max_inline_bytes needs its source registered */
typedef struct sl_port_t {
  uint32_t struct_size;
  uint32_t state; /* SL_PORT_… bits */
  char name[64];
  uint64_t bytes_per_second; /* at most 10^15 */
  uint64_t latency_ns;       /* one way, typical; at most 10^12 */
  int32_t numa_node;         /* -1: unknown */
  uint32_t rail;             /* ports of equal rail are near each other in the network; usually the port's index */
  char pci_path[64];         /* "" for what is no PCI device */
  uint8_t fabric[16];        /* ports of different fabrics never reach each other; shm: the host id */
  uint32_t max_key_bytes;    /* of region_key(); 0: it registers no memory */
  uint32_t max_inline_bytes; /* the source of a put up to this size is free again on return, and needs no region */
} sl_port_t;

/* Where to connect; made by listen, opaque, sent to peers by the kernel. Checked by connect: it came over a socket. */
typedef struct sl_address_t { /* never grows */
  uint32_t bytes;             /* used */
  uint8_t data[252];
} sl_address_t;

/* What the connecting end says; the accepting end receives it. */
typedef struct sl_connect_args_t {
  uint32_t struct_size;
  uint32_t port; /* local port index */
  uint32_t peer; /* rank */
  uint32_t lane;
  uint64_t tag;          /* the kernel's: which link, which epoch */
  uint64_t window_bytes; /* each end's window; the transport allocates it, zeroed */
  uint32_t signal_count; /* each end's signal words, at most 64 */
  uint32_t reserved;
} sl_connect_args_t;

/* A connection seen from one end. Pointers live until retire(). */
typedef struct sl_window_t {
  uint32_t struct_size;
  uint32_t signal_count;
  void* local;             /* my window: the peer writes, I read */
  uint64_t* local_signals; /* one cache line apart: word i is local_signals[i * 8] */
  void* peer;              /* the peer's window, when CPU stores reach it; else NULL and only put() writes it */
  uint64_t bytes;
} sl_window_t;

#define SL_CONNECTION_CONNECTING 0u
#define SL_CONNECTION_UP 1u
#define SL_CONNECTION_DOWN 2u   /* an error; nothing more will be delivered */
#define SL_CONNECTION_CLOSED 3u /* the peer closed in good order */

typedef struct sl_completion_t { /* never grows */
  uint64_t cookie;
  sl_connection_t* connection; /* NULL for a port's */
  int32_t status;              /* SL_OK | SL_ERR_LINK_DOWN: it may or may not have been delivered */
  uint32_t kind;               /* SL_COMPLETION_… */
} sl_completion_t;
#define SL_COMPLETION_PUT 0u   /* the source may be reused; whether the peer has it, only the peer knows */
#define SL_COMPLETION_PROBE 1u /* the peer's end answered */
#define SL_COMPLETION_PORT 2u  /* cookie: port index; its state changed */

#define SL_NO_SIGNAL UINT32_MAX

typedef struct sl_put_t {
  uint32_t struct_size;
  uint32_t signal;            /* peer's signal word to store, or SL_NO_SIGNAL */
  uint64_t signal_value;      /* never smaller than the last one on that word */
  const void* source;         /* NULL: the bytes already stand in the peer's window */
  sl_region_t* region;        /* of the source; NULL: host memory, of a size that needs none (SL_PORT_NEEDS_REGION) */
  uint64_t bytes;             /* 0: signal only */
  sl_remote_region_t* target; /* NULL: the peer's window */
  uint64_t offset;            /* in the target */
  uint64_t cookie;            /* 0: no completion wanted */
} sl_put_t;

/* How to sleep until something happens. */
#define SL_WAIT_DOORBELL 0u
#define SL_WAIT_FD 1u
typedef struct sl_wait_object_t {
  uint32_t struct_size;
  uint32_t type;
  sl_doorbell_t* doorbell;
  int32_t fd; /* readable as long as progress() has work; not to be read */
  uint32_t reserved;
} sl_wait_object_t;

typedef struct sl_transport_ops_t {
  uint32_t struct_size;
  uint32_t reserved;

  /* One rank's transport; mandatory.   thread: [init]   blocking: may read files and devices
   * owns: borrows `env`; the caller closes the transport   returns: SL_OK | SL_ERR_NOT_FOUND no usable port   since: 1
   */
  sl_status_t (*open)(sl_instance_t* instance, const sl_transport_env_t* env, sl_transport_t** out_transport);
  /* Retires every connection and frees everything; mandatory.
   * thread: [control], no other call on the transport or what was made from it may follow
   * owns: frees `transport`   since: 1 */
  void (*close)(sl_transport_t* transport);
  /* The number of ports, constant while the transport is open; 0 is a normal answer.
   * thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*port_count)(sl_transport_t* transport, uint32_t* out_count);
  /* Facts about one port as they are now; fills at most out_port->struct_size bytes.
   * thread: [any]   blocking: never   returns: SL_OK | SL_ERR_INVALID no such port   since: 1 */
  sl_status_t (*port_info)(sl_transport_t* transport, uint32_t port, sl_port_t* out_port);

  /* Where peers reach this rank on `port`.   thread: [control]   blocking: never
   * returns: SL_OK | SL_ERR_LIMIT ports or descriptors exhausted   since: 1 */
  sl_status_t (*listen)(sl_transport_t* transport, uint32_t port, sl_address_t* out_address);
  /* Starts a connection and returns before it is up; watch connection_state. A peer that does not answer makes it DOWN,
   * within a time that the module bounds.   thread: [control]   blocking: never
   * owns: borrows both structs; the caller retires the connection   returns: SL_OK | SL_ERR_PEER_LOST nobody listens
   * there | SL_ERR_LINK_DOWN no way there now | SL_ERR_INVALID address of another transport   since: 1 */
  sl_status_t (*connect)(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                         sl_connection_t** out_connection);
  /* Takes one connection a peer started, with what it said in connect, but out_args->peer is the rank that connects and
   * out_args->port the local port it came to; strangers are dropped before. Fills at most out_args->struct_size bytes.
   * thread: [control]   blocking: never   owns: the caller retires the connection
   * returns: SL_OK | SL_ERR_AGAIN none waits   since: 1 */
  sl_status_t (*accept)(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args);
  /* SL_CONNECTION_…; DOWN and CLOSED are for good.   thread: [data]   returns: the state, not a status   since: 1 */
  uint32_t (*connection_state)(sl_connection_t* connection);
  /* The windows, once the connection is up; fills at most out_window->struct_size bytes. After the peer has CLOSED they
   * are what they were, until retire(): what it had put stays readable. When it is DOWN the call may refuse, but
   * pointers taken before stay good.
   * thread: [data]   owns: the memory is the connection's   returns: SL_OK | SL_ERR_AGAIN not up yet | SL_ERR_LINK_DOWN
   * | SL_ERR_PEER_LOST it is down, as nobody listens there   since: 1 */
  sl_status_t (*window)(sl_connection_t* connection, sl_window_t* out_window);
  /* Ends a connection, whatever its state. On return no write of the peer can land through it any more, neither in this
   * end's window nor in registered memory, and sources of its puts are free. What was put before
   * is still sent, as far as that is brief: then the peer's end goes to CLOSED, else to DOWN. Counts as a call on the
   * transport, too.
   * thread: [control]   blocking: briefly   owns: frees `connection` and its completions   since: 1 */
  void (*retire)(sl_connection_t* connection);

  /* Registers local memory of any device.   thread: [control]   blocking: may pin pages
   * owns: borrows the memory until deregister_memory()
   * returns: SL_OK | SL_ERR_UNSUPPORTED stage it instead | SL_ERR_LIMIT   since: 1 */
  sl_status_t (*register_memory)(sl_transport_t* transport, void* memory, uint64_t bytes, sl_region_t** out_region);
  /* Ends a registration that no put borrows any more.   thread: [control]   owns: frees `region`   since: 1 */
  void (*deregister_memory)(sl_region_t* region);
  /* Copies what lets a peer name the region in put(): at most the port's max_key_bytes.
   * thread: [any]   blocking: never   returns: SL_OK | SL_ERR_INVALID key_capacity is too small   since: 1 */
  sl_status_t (*region_key)(sl_region_t* region, void* key, uint32_t key_capacity, uint32_t* out_key_bytes);
  /* Makes a peer's region usable as the target of puts on this connection.
   * thread: [control]   owns: the caller releases it before the connection is retired
   * returns: SL_OK | SL_ERR_INVALID not a key of this transport   since: 1 */
  sl_status_t (*import_key)(sl_connection_t* connection, const void* key, uint32_t key_bytes,
                            sl_remote_region_t** out_remote);
  /* Forgets a peer's region.   thread: [control]   owns: frees `remote`   since: 1 */
  void (*release_key)(sl_remote_region_t* remote);

  /* Posts a one-sided write and returns before it completes. A signal word may be stored the same value again, never a
   * smaller one. A cookie comes back once, when the connection goes down too, but not after retire().   thread: [data]
   * owns: borrows the source until its completion, or until return when bytes <= max_inline_bytes; without a cookie
   * until a later put of the connection has completed, a signal of the peer's shows that it has seen this put's or a
   * later one's, or retire()
   * returns: SL_OK | SL_ERR_AGAIN queue full, call progress() | SL_ERR_INVALID outside the target | SL_ERR_LINK_DOWN
   * since: 1 */
  sl_status_t (*put)(sl_connection_t* connection, const sl_put_t* put);
  /* Makes all puts received so far visible to the device that will read them.
   * thread: [data]   returns: SL_OK | SL_ERR_AGAIN under way, call again | SL_ERR_LINK_DOWN   since: 1 */
  sl_status_t (*flush)(sl_connection_t* connection);
  /* A zero-length round trip on this path, answered by the peer's transport, in progress() at the latest; ends in a
   * completion. AGAIN: one is under way.
   * thread: [data]   returns: SL_OK | SL_ERR_AGAIN | SL_ERR_LINK_DOWN   since: 1 */
  sl_status_t (*probe)(sl_connection_t* connection, uint64_t cookie);
  /* Does what has to be done now: receives, acknowledges, accepts. May be a no-op.
   * thread: [data]   returns: SL_OK | SL_ERR_AGAIN there was nothing to do   since: 1 */
  sl_status_t (*progress)(sl_transport_t* transport);
  /* Takes up to `capacity` completions, oldest first; completions of one connection keep the order of its puts. The
   * transport has room for the completion of every put it takes, however late this is called: where it has none, put()
   * says AGAIN.
   * thread: [data]   returns: SL_OK, also when there are none   since: 1 */
  sl_status_t (*poll)(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity, uint32_t* out_count);
  /* Sends what put() has only queued and wakes the peer if it sleeps; called once after a batch of puts.
   * thread: [data]; may make a system call   since: 1 */
  void (*notify)(sl_connection_t* connection);
  /* How to sleep until this transport has news; fills at most out_object->struct_size bytes. A transport without it is
   * polled.   thread: [control]   owns: doorbell and descriptor are the transport's   returns: SL_OK   since: 1 */
  sl_status_t (*wait_object)(sl_transport_t* transport, sl_wait_object_t* out_object);
} sl_transport_ops_t;

/* Release 1.0, closed: what is added later comes behind these sizes. Addresses and completions never grow. */
#define SL_TRANSPORT_ENV_SIZE_1_0 80u
#define SL_PORT_SIZE_1_0 184u
#define SL_ADDRESS_SIZE_1_0 256u
#define SL_CONNECT_ARGS_SIZE_1_0 40u
#define SL_WINDOW_SIZE_1_0 40u
#define SL_COMPLETION_SIZE_1_0 24u
#define SL_PUT_SIZE_1_0 64u
#define SL_WAIT_OBJECT_SIZE_1_0 24u
#define SL_TRANSPORT_OPS_SIZE_1_0 184u
SL_ASSERT_SIZE(sl_transport_env_t, SL_TRANSPORT_ENV_SIZE_1_0);
SL_ASSERT_SIZE(sl_port_t, SL_PORT_SIZE_1_0);
SL_ASSERT_SIZE(sl_address_t, SL_ADDRESS_SIZE_1_0);
SL_ASSERT_SIZE(sl_connect_args_t, SL_CONNECT_ARGS_SIZE_1_0);
SL_ASSERT_SIZE(sl_window_t, SL_WINDOW_SIZE_1_0);
SL_ASSERT_SIZE(sl_completion_t, SL_COMPLETION_SIZE_1_0);
SL_ASSERT_SIZE(sl_put_t, SL_PUT_SIZE_1_0);
SL_ASSERT_SIZE(sl_wait_object_t, SL_WAIT_OBJECT_SIZE_1_0);
SL_ASSERT_SIZE(sl_transport_ops_t, SL_TRANSPORT_OPS_SIZE_1_0);

#ifdef __cplusplus
}
#endif
#endif
