#include "dpdk/log.h"

#include <spdlog/sinks/dup_filter_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>

namespace verbena {

void open_log(const std::string& path, const std::string& level) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  // A client that is refused again and again is told of once in five seconds.
  auto filter = std::make_shared<spdlog::sinks::dup_filter_sink_mt>(std::chrono::seconds(5));
  filter->add_sink(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kMaxBytes, 1));
  auto logger = std::make_shared<spdlog::logger>("verbenad", std::move(filter));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

namespace log {

void write(Level level, std::string_view text) {
  switch (level) {
    case Level::kInfo:
      return spdlog::info("{}", text);
    case Level::kWarn:
      return spdlog::warn("{}", text);
    case Level::kError:
      return spdlog::error("{}", text);
  }
}

}  // namespace log
}  // namespace verbena
