// SPDX-License-Identifier: Apache-2.0
// The report as one self-contained page: no script, no font, no picture and no address outside it.
#pragma once

#include <string>

#include "tools/starling/report_model.h"

namespace sl::tools {

std::string ReportHtml(const Report& report);

}  // namespace sl::tools
