#!/usr/bin/env python3
"""Writes text files as C++ string constants: embed.py FILE... SOURCE. style.css becomes kStyleCss."""
import pathlib
import sys

*texts, source = map(pathlib.Path, sys.argv[1:])
lines = ['#include "tools/explain/page_assets.h"', 'namespace verbena::explain::page {']
for text in texts:
    name = 'k' + ''.join(part.capitalize() for part in text.name.split('.'))
    lines.append(f'const std::string_view {name} = R"page({text.read_text()})page";')
lines += ['}  // namespace verbena::explain::page', '']
source.write_text('\n'.join(lines))
