/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.h and its device companion as C sees them: the macros are constant expressions, the layouts NCCL's. */
#include "nccl.h"
#include "nccl_device_host.h"

#define SL_CHECK_AT_COMPILE_TIME(name, condition) typedef char name[(condition) ? 1 : -1]

SL_CHECK_AT_COMPILE_TIME(sl_version_code, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE);
SL_CHECK_AT_COMPILE_TIME(sl_old_version_code, NCCL_VERSION(2, 4, 8) == 2408);
SL_CHECK_AT_COMPILE_TIME(sl_unique_id_bytes, sizeof(ncclUniqueId) == 128);
SL_CHECK_AT_COMPILE_TIME(sl_blocking_offset, offsetof(ncclConfig_t, blocking) == 16);
SL_CHECK_AT_COMPILE_TIME(sl_net_name_offset, offsetof(ncclConfig_t, netName) == 32);
SL_CHECK_AT_COMPILE_TIME(sl_comm_name_offset, offsetof(ncclConfig_t, commName) == 48);
SL_CHECK_AT_COMPILE_TIME(sl_config_bytes, sizeof(ncclConfig_t) == 120);
SL_CHECK_AT_COMPILE_TIME(sl_last_offset, offsetof(ncclConfig_t, nvlsHostMode) == 112);
SL_CHECK_AT_COMPILE_TIME(sl_collective_bytes, sizeof(ncclCollConfig_t) == 72);
SL_CHECK_AT_COMPILE_TIME(sl_tag_offset, offsetof(ncclCollConfig_t, userProfilerTag) == 56);
SL_CHECK_AT_COMPILE_TIME(sl_event_offset, offsetof(ncclCollConfig_t, launchCompletionEvent) == 64);
SL_CHECK_AT_COMPILE_TIME(sl_option_bytes, sizeof(ncclConfigExt_t) == 24);
SL_CHECK_AT_COMPILE_TIME(sl_encryption_bytes, sizeof(ncclEncryptionConfig_t) == 32);
SL_CHECK_AT_COMPILE_TIME(sl_sim_info_bytes, sizeof(ncclSimInfo_t) == 24);
SL_CHECK_AT_COMPILE_TIME(sl_team_bytes, sizeof(ncclTeam_t) == 12);

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "the preprocessor reads the version"
#endif

static ncclConfig_t sl_config = NCCL_CONFIG_INITIALIZER;
static ncclCollConfig_t sl_collective = NCCL_COLLCONFIG_INITIALIZER;
static ncclEncryptionConfig_t sl_encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
static ncclSimInfo_t sl_sim_info = NCCL_SIM_INFO_INITIALIZER;
static ncclCommProperties_t sl_properties = NCCL_COMM_PROPERTIES_INITIALIZER;

int sl_header_compiles(void);
int sl_header_compiles(void) {
  return sl_config.magic == NCCL_API_MAGIC && sl_sim_info.size != 0 && sl_collective.forceAlgSelection == 1 &&
         sl_encryption.psk == NULL && sl_properties.nRanks == 0;
}
