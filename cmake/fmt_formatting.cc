// SPDX-License-Identifier: Apache-2.0
// The compiled half of fmt, declared in fmt/format.h. Debian ships it only as a shared library, which what we ship must
// not need, so each binary links this hidden copy. It keeps no state and may be called from any thread.
#include <fmt/format-inl.h>

using fmt::detail::locale_ref;

// Templates that fmt/format.h declares as instantiated elsewhere.
template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> fmt::detail::thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;

// Templates that it only declares.
template auto fmt::detail::dragonbox::to_decimal<float>(float) noexcept -> fmt::detail::dragonbox::decimal_fp<float>;
template auto fmt::detail::dragonbox::to_decimal<double>(double) noexcept -> fmt::detail::dragonbox::decimal_fp<double>;
template void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
                                            fmt::basic_format_args<fmt::buffer_context<char>>, locale_ref);
