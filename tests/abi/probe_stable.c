/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the stable ABI visible to libabigail: one exported variable for each struct, table and function type that a
 * header outside draft/ declares. A table behind a void pointer would be invisible to it. */
#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_module.h"
#include "sl_transport.h"

#define PROBE(type) SL_EXPORT type probe_##type;

/* sl_base.h, sl_host.h, sl_module.h */
PROBE(sl_doorbell_t)
PROBE(sl_record_t)
PROBE(sl_host_t)
PROBE(sl_hello_t)
PROBE(sl_option_t)
PROBE(sl_option_value_t)
PROBE(sl_provide_t)
PROBE(sl_require_t)
PROBE(sl_binding_t)
PROBE(sl_open_args_t)
PROBE(sl_module_t)
SL_EXPORT sl_module_query_fn probe_sl_module_query_fn;

/* sl_algorithm.h */
PROBE(sl_op_t)
PROBE(sl_symmetric_t)
PROBE(sl_control_t)
PROBE(sl_reach_ops_t)
PROBE(sl_op_settings_t)
PROBE(sl_settings_ops_t)
PROBE(sl_comm_shape_t)
PROBE(sl_demand_t)
PROBE(sl_algorithm_env_t)
PROBE(sl_estimate_t)
PROBE(sl_operand_t)
PROBE(sl_step_t)
PROBE(sl_geometry_t)
PROBE(sl_plan_desc_t)
PROBE(sl_plan_builder_ops_t)
PROBE(sl_copy_t)
PROBE(sl_part_t)
PROBE(sl_algorithm_ops_t)

/* sl_device.h */
PROBE(sl_device_info_t)
PROBE(sl_pointer_info_t)
PROBE(sl_memory_handle_t)
PROBE(sl_wait_t)
PROBE(sl_host_kernel_t)
PROBE(sl_image_desc_t)
PROBE(sl_launch_t)
PROBE(sl_stream_value_t)
PROBE(sl_reduce_scale_t)
PROBE(sl_device_ops_t)
SL_EXPORT sl_reduce_fn probe_sl_reduce_fn;

/* sl_transport.h */
PROBE(sl_transport_env_t)
PROBE(sl_port_t)
PROBE(sl_address_t)
PROBE(sl_connect_args_t)
PROBE(sl_window_t)
PROBE(sl_completion_t)
PROBE(sl_put_t)
PROBE(sl_wait_object_t)
PROBE(sl_transport_ops_t)
