// Admin: the words of an admin connection and their JSON answers.
//
//   status | stat | fault wire RULE | fault show | fault clear [SELECTOR] |
//   capture start FILE | capture stop | shutdown
//
// A wrong word is answered with {"error": "..."} that says what to write, or leaves that to a "try"
// beside it. Control thread only.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk/capture.h"
#include "dpdk/daemon.h"

namespace verbena {

class Client;

class Admin {
 public:
  explicit Admin(Daemon& daemon) : daemon_(daemon) {}

  // `clients` are those with an open device.
  std::string answer(std::string_view words, const std::vector<const Client*>& clients);
  bool shutdown_wanted() const { return shutdown_wanted_; }

  // Ends a capture that is still on, while the worker still runs commands.
  void finish();

 private:
  nlohmann::json run(std::string_view words, const std::vector<const Client*>& clients);
  nlohmann::json status(const std::vector<const Client*>& clients);
  nlohmann::json stat();
  nlohmann::json fault_wire(std::string_view words);
  nlohmann::json fault_show();
  nlohmann::json fault_clear(std::string_view words);
  nlohmann::json capture_start(const std::string& path);
  nlohmann::json capture_stop();
  nlohmann::json capture_state() const;
  void capture_to(Capture* capture);

  Daemon& daemon_;
  std::unique_ptr<Capture> capture_;
  bool shutdown_wanted_ = false;
};

}  // namespace verbena
