// The command line: every subcommand and option, declared in one place.
//
// The only file that includes CLI11, whose headers cost more to compile than all the rest.
#include "tools/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/commands.h"
#include "tools/error.h"
#include "tools/nearest_word.h"

namespace verbena::tools {

namespace {

constexpr int kUsage = 2;

// What to write, for one who left something out.
struct Example {
  std::string_view command;
  std::string_view line;
};
constexpr Example kExamples[] = {
    {"verbena", "verbena up"},
    {"verbena run", "verbena run -- ibv_devices"},
    {"verbena fault", "verbena fault wire drop=5%"},
    {"verbena fault wire", "verbena fault wire drop=5%"},
    {"verbena capture", "verbena capture start wire.pcapng"},
    {"verbena capture start", "verbena capture start wire.pcapng"},
    {"verbena explain", "verbena explain wire.pcapng"},
    {"verbena conformance", "verbena conformance run pcaps/rules"},
    {"verbena conformance run", "verbena conformance run pcaps/rules"},
    {"verbena conformance import", "verbena conformance import wire.pcapng -o cases"},
};

std::string hint_for(const std::string& command) {
  for (const Example& example : kExamples) {
    if (example.command == command) {
      return fmt::format("{}   ({} --help explains it)", example.line, command);
    }
  }
  return command + " --help";
}

template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

// An option that takes a whole number from 1 on.
template <typename Number>
CLI::Option* add_number(CLI::App* command, const std::string& name, Number& value,
                        const std::string& description) {
  return command->add_option(name, value, description)
      ->type_name("NUMBER")
      ->check([](const std::string& text) {
        if (parse_number<Number>(text).value_or(0) >= 1) return std::string();
        return fmt::format("write a number from 1 to {}", std::numeric_limits<Number>::max());
      });
}

void add_up(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("up", "Start the daemon: two devices, verbena0 and verbena1, on one wire");
  auto options = std::make_shared<DaemonOptions>();
  command
      ->add_option("--device", options->devices,
                   "A device, as NAME[,ip=ADDRESS][,vendor=mlx5|rxe|ID[:PART]][,migreq=0|1]. Given "
                   "twice, once for each end of the wire. Some programs know only names such as "
                   "mlx5_0 or rxe0")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option(
          "--fault", options->faults,
          "What the wire does wrong, e.g. drop=1%,dup=1%,reorder=1%,corrupt=1%,delay=10us. "
          "Given several times, several rules; `verbena fault wire --help` has the words")
      ->type_name("RULE")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--poll", options->poll,
                    "Never sleep: lower latency, for one processor kept busy");
  command->callback([&context, options] { up(context, *options); });
}

void add_down(CLI::App& app, Context& context) {
  app.add_subcommand("down", "End the daemon, and wait until it is gone")->callback([&context] {
    down(context);
  });
}

void add_run(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "run", "Run a program that sees Verbena's devices: verbena run [--device D] -- PROGRAM...");
  auto device = std::make_shared<std::string>();
  command->add_option("--device", *device, "Show the program this device only")->type_name("NAME");
  command->footer(
      "The program takes this process's place: its exit status and signals are its own.\n"
      "When no daemon is up, the default one is started first, with a note on stderr.");
  command->callback([&context, device] { run(context, *device); });
}

void add_env(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "env", "Print the settings that `run` makes, for a shell: eval \"$(verbena env)\"");
  auto device = std::make_shared<std::string>();
  command->add_option("--device", *device, "Show programs this device only")->type_name("NAME");
  command->callback([&context, device] { env(context, *device); });
}

void add_status(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("status", "Show the daemon, its devices and the programs that use them");
  command->footer("The exit status is 1 when no daemon is up.");
  command->callback([&context] { status(&context); });
}

void add_stat(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("stat", "Show the counters that are not 0");
  auto options = std::make_shared<StatOptions>();
  command->add_option("device", options->device, "This device only")->type_name("DEVICE");
  command->add_flag("--all", options->all, "Show those that are 0 too");
  command
      ->add_option("-w,--watch", options->watch_s,
                   "Show them again and again, with the change per second")
      ->type_name("SECONDS")
      ->check([](const std::string& text) {
        const double seconds = parse_number<double>(text).value_or(0);
        return seconds >= 0.1 && seconds <= 86400 ? "" : "write seconds from 0.1 to 86400";
      });
  command->callback([&context, options] { stat(context, *options); });
}

constexpr const char* kFaultWords =
    "Which packets (all, unless said):\n"
    "  from=DEVICE     those that this device sends\n"
    "  opcode=NAME     SEND_ONLY, ACK, READ_RESPONSE_MIDDLE ... or a family: SEND, WRITE, READ\n"
    "  nth=N           only the Nth of them from now on; nth=3+7: the third and the seventh\n"
    "What happens to them:\n"
    "  drop=P dup=P reorder=P corrupt=P    with a share of the packets: 5% or 0.05; 1 is always\n"
    "  reorder-by=N    at most so many packets pass a reordered one (4; at most 64)\n"
    "  delay=TIME      500ns, 10us, 2ms, 1s (at most 10s)\n"
    "  jitter=TIME     the delay varies by so much, up and down\n"
    "  seed=N          another seed, other packets (1)\n"
    "A rule replaces the one for the same packets. All rules that choose a packet act on it.\n"
    "Examples:\n"
    "  verbena fault wire drop=5% dup=5% reorder=5% corrupt=1% delay=10us\n"
    "  verbena fault wire from=verbena0 opcode=ACK nth=2 drop=1";

void add_fault(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("fault", "Drop, repeat, reorder, damage or delay packets, while it runs");
  command->require_subcommand(1);
  auto rule = std::make_shared<std::vector<std::string>>();
  CLI::App* wire = command->add_subcommand("wire", "Set a rule for packets on the wire");
  wire->fallthrough();
  wire->add_option("RULE", *rule, "Words such as drop=5% opcode=ACK")->required();
  wire->footer(kFaultWords);
  wire->callback([&context, rule] { set_fault(context, *rule); });
  CLI::App* show = command->add_subcommand("show", "Show the rules, and what they did");
  show->fallthrough();
  show->callback([&context] { show_faults(context); });
  auto selector = std::make_shared<std::vector<std::string>>();
  CLI::App* clear = command->add_subcommand("clear", "Remove all rules, or those with these words");
  clear->fallthrough();
  clear->add_option("SELECTOR", *selector, "from=DEVICE, opcode=NAME, nth=N");
  clear->callback([&context, selector] { clear_faults(context, *selector); });
}

void add_capture(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("capture", "Write the devices' packets to a file for Wireshark");
  command->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  CLI::App* start_command = command->add_subcommand("start", "Begin a capture");
  start_command->fallthrough();
  start_command->add_option("FILE", *file, "The pcapng file to write")->required();
  start_command->callback([&context, file] { start_capture(context, *file); });
  CLI::App* stop_command = command->add_subcommand("stop", "End it, with the file complete");
  stop_command->fallthrough();
  stop_command->callback([&context] { stop_capture(context); });
}

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show what a capture of RoCEv2 says: a ladder diagram, in words");
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("CAPTURE", options->capture, "A pcap or pcapng file; - reads stdin")
      ->required();
  command
      ->add_option("--qp", options->qpns,
                   "Only connections of this QP, as 0x11 or 17; may be given several times")
      ->type_name("QPN")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_number(command, "--from", options->from, "Begin at this packet, as Wireshark counts");
  add_number(command, "--count", options->count, "Show at most so many packets");
  command->add_option("--html", options->html, "Write a page for a browser to this file instead")
      ->type_name("FILE")
      ->check([](const std::string& file) {
        return file == "-" ? "the page goes to a file, e.g. --html page.html" : "";
      });
  command->add_flag("--all", options->all, "Show every packet: long runs are folded otherwise");
  command->add_flag("--ascii", options->ascii, "Draw with ASCII characters only");
  command->footer(
      "Colours are used on a terminal, unless NO_COLOR is set. With --json the same facts are "
      "printed as JSON.");
  command->callback([&context, options] { explain(context, *options); });
}

void add_doctor(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("doctor", "Look at what this machine lacks, and say what to do");
  command->footer("The exit status is 1 when something that is needed is missing.");
  command->callback([&context] { doctor(&context); });
}

void add_conformance(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("conformance", "Hold the engine, or a live device, against captures");
  command->require_subcommand(1);
  auto options = std::make_shared<ConformanceOptions>();
  CLI::App* run_command = command->add_subcommand("run", "Run cases, and say which failed");
  run_command->fallthrough();
  run_command->add_option("PATH", options->paths, "Cases (*.toml), or folders with cases")
      ->required();
  run_command->add_flag("-v,--verbose", options->verbose, "Name the cases that pass too");
  auto* target = run_command
                     ->add_option("--target", options->target,
                                  "Play the peer's side to the live device with this address")
                     ->type_name("IP");
  run_command
      ->add_option("--control", options->control,
                   "Where verbena-conformance-target runs, when not at that address")
      ->type_name("HOST")
      ->needs(target);
  add_number(run_command, "--port", options->port, "Its TCP port (18515)")->needs(target);
  run_command
      ->add_option("--interface", options->interface,
                   "Ethernet interface to play on, when not the one on the way")
      ->type_name("NAME")
      ->needs(target);
  run_command->footer(
      "The last line is \"N passed, M failed\". The exit status is 1 when a case failed.");
  run_command->callback([&context, options] { run_conformance(&context, *options); });
  auto import = std::make_shared<ImportOptions>();
  CLI::App* import_command = command->add_subcommand(
      "import", "Make a case for each role that Verbena can play in a capture");
  import_command->fallthrough();
  import_command->add_option("CAPTURE", import->capture, "A pcap or pcapng file")->required();
  import_command->add_option("-o,--output", import->folder, "The folder for the cases")
      ->type_name("FOLDER")
      ->required();
  import_command->footer(
      "What makes no case is named with the reason. The exit status is 1 when a case does not "
      "pass.");
  import_command->callback([&context, import] { import_conformance(&context, *import); });
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// A word that is no subcommand where one is needed, or none at all, gets an answer that knows the
// subcommands.
void check_subcommands(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string path = "verbena";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--name") {
      ++i;
      continue;
    }
    if (word == "--help" || word == "-h" || word == "--version") return;
    if (word.starts_with('-')) continue;
    const std::vector<std::string> names = subcommand_names(*command);
    if (names.empty()) return;
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      command = command->get_subcommand(word);
      path += ' ' + word;
      continue;
    }
    const std::string meant = nearest_word(word, names);
    throw CommandError(fmt::format("there is no subcommand '{}'", word),
                       meant.empty() ? fmt::format("use one of {}; {} --help explains them",
                                                   fmt::join(names, ", "), path)
                                     : fmt::format("{} {}", path, meant),
                       kUsage);
  }
  if (const auto names = subcommand_names(*command); !names.empty()) {
    throw CommandError(fmt::format("{} needs a word more: {}", path, fmt::join(names, ", ")),
                       hint_for(path), kUsage);
  }
}

// The subcommand that was asked for, whose parents take its options too.
const CLI::App* asked_for(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

std::string command_words(const CLI::App* command) {
  const CLI::App* parent = command->get_parent();
  return (parent == nullptr ? "" : command_words(parent) + ' ') + command->get_name();
}

std::vector<std::string> option_names(const CLI::App* command) {
  std::vector<std::string> names;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// Words that are no part of the command, in the order in which they were written, as far as they
// stand together: the value of a wrong option may have been taken for another word.
CommandError unexpected_words(const CLI::App& app, const std::vector<std::string>& written) {
  const CLI::App* command = asked_for(app);
  const std::string words = command_words(command);
  std::vector<std::string> extra = app.remaining(true);
  const auto at = std::find(written.begin(), written.end(), extra.front());
  const auto apart = std::mismatch(extra.begin(), extra.end(), at, written.end()).first;
  extra.erase(std::max(apart, extra.begin() + 1), extra.end());
  const std::string meant = nearest_word(extra.front(), option_names(command));
  return {fmt::format("{} does not take '{}'", words, fmt::join(extra, " ")),
          meant.empty() ? words + " --help"
                        : fmt::format("{0} {1}; {0} --help explains it", words, meant),
          kUsage};
}

void declare(CLI::App& app, Context& context) {
  app.name("verbena");
  app.set_version_flag("--version", std::string("verbena ") + VERBENA_VERSION);
  app.add_option("--name", context.name,
                 "Which daemon, when several are up (the one called default)")
      ->check([](const std::string& name) { return name.empty() ? "it is empty" : ""; })
      ->type_name("NAME");
  app.add_flag("--json", context.json, "Print JSON where a table would be printed");
  app.require_subcommand(1);
  app.fallthrough();
  add_up(app, context);
  add_down(app, context);
  add_run(app, context);
  add_env(app, context);
  add_status(app, context);
  add_stat(app, context);
  add_fault(app, context);
  add_capture(app, context);
  add_explain(app, context);
  add_doctor(app, context);
  add_conformance(app, context);
  app.footer(
      "Begin with:\n"
      "  verbena up\n"
      "  verbena run -- ibv_devices\n"
      "`verbena SUBCOMMAND --help` tells more about each.");
}

}  // namespace

int run_command_line(std::vector<std::string> arguments, Context& context) {
  CLI::App app(
      "Verbena: an RDMA network adapter in software. Programs that use verbs run on it "
      "unchanged, with no RDMA hardware, kernel module or root.");
  declare(app, context);
  check_subcommands(app, arguments);
  const std::vector<std::string> written = arguments;
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ExtrasError&) {
    throw unexpected_words(app, written);
  } catch (const CLI::ParseError& error) {
    throw CommandError(error.what(), hint_for(command_words(asked_for(app))), kUsage);
  }
  return context.status;
}

}  // namespace verbena::tools
