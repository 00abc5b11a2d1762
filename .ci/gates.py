#!/usr/bin/env python3
"""Gates that no stock tool has. Usage: gates.py layering|purity|file-size|golden-orphans|licences"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = {
    "calico-core": set(),
    "calico-datastore": {"calico-core"},
    "calico-bgp": {"calico-core"},
    "calico-dataplane": {"calico-core"},
}
# Hard limit of lines that are not tests; aim for half of it. An exception maps a path to (limit, reason).
FILE_LIMIT = 800
FILE_EXCEPTIONS = {}
# The spec evaluator must stay obvious: all of its code together, without comments, blank lines and tests. What it reads resources into
# (member.rs) is no evaluation.
SPEC, SPEC_LIMIT = "calico-core/src/spec", 600
LICENCES = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "MIT-0",
    "Unicode-3.0", "Unlicense", "Zlib",
}
# Crates that bring in I/O, time, randomness or a runtime, in whatever depth below the core.
IMPURE = {"chrono", "getrandom", "libc", "mio", "nix", "rand", "rustix", "smol", "socket2", "time", "tokio"}


def metadata(*arguments):
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--filter-platform", "x86_64-unknown-linux-gnu",
               *arguments]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def layering():
    for package in metadata("--no-deps")["packages"]:
        allowed = LIBRARIES.get(package["name"])
        for dependency in package["dependencies"] if allowed is not None else []:
            if dependency.get("path") and dependency["name"] not in allowed:
                yield f"{package['name']} must not depend on {dependency['name']} ({dependency['kind'] or 'normal'} dependency)"


def purity():
    lib = (ROOT / "calico-core/src/lib.rs").read_text()
    for attribute in ("#![no_std]", "#![forbid(unsafe_code)]"):
        if attribute not in lib:
            yield f"calico-core/src/lib.rs lacks {attribute}"
    command = ["cargo", "tree", "-p", "calico-core", "--all-features", "-e", "normal", "--prefix", "none", "--format", "{p}"]
    tree = subprocess.check_output(command, cwd=ROOT, text=True)
    for name in sorted({line.split(" ")[0] for line in tree.split("\n")} & IMPURE):
        yield f"calico-core depends on {name}"
    for path in (ROOT / "calico-core/src").rglob("*.rs"):
        text = path.read_text()
        for match in re.finditer(r"extern crate std", text):
            if "cfg(test)" not in text[max(0, match.start() - 60):match.start()]:
                yield f"{path.relative_to(ROOT)} links std outside tests"


def code_lines(path):
    """Lines before the in-file test module."""
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines[:-1]):
        if line.startswith("#[cfg(test)]") and lines[number + 1].startswith("mod tests {"):
            return number
    return len(lines)


def file_size():
    for path in sorted(ROOT.rglob("*.rs")):
        name = str(path.relative_to(ROOT))
        if name.startswith("target/") or "/tests/" in name or path.name == "tests.rs":
            continue
        limit = FILE_EXCEPTIONS.get(name, (FILE_LIMIT, ""))[0]
        lines = code_lines(path)
        if lines > limit:
            yield f"{name} has {lines} lines of code; the limit is {limit}: look for the seam"
    spec = [path for path in (ROOT / SPEC).rglob("*.rs") if "tests" not in path.relative_to(ROOT).with_suffix("").parts]
    lines = sum(1 for path in spec for line in path.read_text().split("\n")[:code_lines(path)] if not re.match(r"\s*(//|$)", line))
    if not 0 < lines < SPEC_LIMIT:
        yield f"{SPEC} has {lines} lines of code in all; it must be below {SPEC_LIMIT}"


def golden_orphans():
    """Every golden file is named, by its stem or whole name, in a Rust source of its package; `{…}` in a literal stands for anything."""
    for folder in sorted(ROOT.rglob("golden")):
        if not folder.is_dir() or "target" in folder.parts:
            continue
        package = folder
        while not (package / "Cargo.toml").exists():
            package = package.parent
        sources = "\n".join(source.read_text() for source in package.rglob("*.rs"))
        literals = re.findall(r'"([\w-]{3,}\{[^"\n]*)"', sources)
        patterns = [re.compile(".+".join(map(re.escape, re.split(r"\{[^}]*\}", literal)))) for literal in literals]
        for path in sorted(folder.rglob("*")):
            named = path.stem in sources or path.name in sources
            if path.is_file() and not named and not any(p.fullmatch(path.name) or p.fullmatch(path.stem) for p in patterns):
                yield f"{path.relative_to(ROOT)} is read by no test"


def permitted(expression):
    """Whether an SPDX expression (or the older form with a slash) leaves a choice that is on the list."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        result = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result |= conjunction()
        return result

    def conjunction():
        result = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result &= term()
        return result

    def term():
        token = tokens.pop(0)
        if token == "(":
            result = alternatives()
            tokens.pop(0)
            return result
        if tokens and tokens[0] == "WITH":
            token = f"{token} WITH {tokens.pop(1)}"
            tokens.pop(0)
        return token in LICENCES

    return bool(tokens) and alternatives()


def licences():
    for package in metadata()["packages"]:
        if package["source"] is not None and not permitted(package["license"] or ""):
            yield f"{package['name']} {package['version']}: licence {package['license']!r} is not on the list"


def main():
    gates = {"layering": layering, "purity": purity, "file-size": file_size, "golden-orphans": golden_orphans, "licences": licences}
    if len(sys.argv) != 2 or sys.argv[1] not in gates:
        sys.exit(__doc__)
    faults = list(gates[sys.argv[1]]())
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
