#include "tools/status_text.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tools/table.h"

namespace verbena::tools {

namespace {

void collect(const nlohmann::json& value, const std::string& name, Counters* counters) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      collect(inner, name.empty() ? key : name + '.' + key, counters);
    }
  } else if (value.is_number_unsigned() || value.is_number_integer()) {
    (*counters)[name] = value.get<uint64_t>();
  }
}

// An object inside an object; an empty one when there is none.
nlohmann::json member(const nlohmann::json& object, const std::string& key) {
  if (object.is_object() && object.contains(key) && object[key].is_object()) return object[key];
  return nlohmann::json::object();
}

// The first of several names under which a field is known.
std::string first_field(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (std::string text = field(object, key); !text.empty()) return text;
  }
  return {};
}

}  // namespace

std::string field(const nlohmann::json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) return {};
  const nlohmann::json& value = object[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number()) return value.dump();
  if (value.is_array()) return std::to_string(value.size());
  return {};
}

nlohmann::json list(const nlohmann::json& object, const std::string& key) {
  if (object.is_object() && object.contains(key) && object[key].is_array()) return object[key];
  return nlohmann::json::array();
}

std::string device_table(const nlohmann::json& status) {
  Table table({"DEVICE", "ADDRESS", "STATE", "MTU", "CLIENTS", "QPS", "MRS"});
  for (const auto& device : list(status, "devices")) {
    size_t qps = 0;
    size_t mrs = 0;
    for (const auto& client : list(device, "clients")) {
      qps += static_cast<size_t>(std::strtoull(field(client, "qps").c_str(), nullptr, 10));
      mrs += static_cast<size_t>(std::strtoull(field(client, "mrs").c_str(), nullptr, 10));
    }
    table.add({field(device, "name"), first_field(device, {"ip", "address", "gid"}),
               field(device, "state"), field(device, "mtu"), field(device, "clients"),
               std::to_string(qps), std::to_string(mrs)});
  }
  return table.empty() ? "no device\n" : table.text();
}

std::string client_table(const nlohmann::json& status) {
  Table table({"PROCESS", "COMMAND", "DEVICE", "PDS", "MRS", "CQS", "QPS"});
  for (const auto& device : list(status, "devices")) {
    for (const auto& client : list(device, "clients")) {
      table.add({field(client, "pid"), first_field(client, {"command", "comm"}),
                 field(device, "name"), field(client, "pds"), field(client, "mrs"),
                 field(client, "cqs"), field(client, "qps")});
    }
  }
  return table.empty() ? "" : table.text();
}

std::string fault_table(const nlohmann::json& faults) {
  Table table({"RULE", "MATCHED", "DROPPED", "DUPLICATED", "REORDERED", "CORRUPTED", "DELAYED"});
  for (const auto& rule : list(faults, "rules")) {
    table.add({field(rule, "rule"), field(rule, "matched"), field(rule, "dropped"),
               field(rule, "duplicated"), field(rule, "reordered"), field(rule, "corrupted"),
               field(rule, "delayed")});
  }
  return table.empty() ? "" : table.text();
}

std::string wire_text(const nlohmann::json& status) {
  std::string text;
  for (const auto& rule : list(member(status, "wire"), "faults")) {
    text += fmt::format("fault of the wire: {}\n", field(rule, "rule"));
  }
  const nlohmann::json capture = member(status, "capture");
  if (field(capture, "active") == "yes") {
    text += fmt::format("capture: {} packets in {}\n", field(capture, "packets"),
                        field(capture, "file"));
  }
  return text;
}

Counters counters_of(const nlohmann::json& device) {
  Counters counters;
  if (device.is_object() && device.contains("counters")) {
    collect(device["counters"], "", &counters);
  }
  return counters;
}

}  // namespace verbena::tools
