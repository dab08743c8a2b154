#!/usr/bin/env python3
"""Lays out README.md, docs/ and all that they link to for MkDocs: stage.py FOLDER, in the root of the tree.

GitHub shows folders and sources, and its Markdown is more lenient than MkDocs'. So a link to a folder leads to its README or to a
list of its files, one to a source to a page with its text, and lists are indented by four. Fails with each link that leads nowhere.
"""

import os
import re
import shutil
import subprocess
import sys

LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
ITEM = re.compile(r"( *)([-*]|\d+\.) +")
STATIC = (".png", ".svg", ".cast", ".json")  # json: results and schemas, too long for a page
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".go": "go", ".sh": "sh", ".py": "python", ".c": "c", ".h": "c", ".conf": "nginx", ".service": "ini"}


def fences(text):
    """Gives each line, and whether it is code."""
    fence = None
    for line in text.split("\n"):
        mark = re.match(r" *(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark[1]
            yield line, True
        elif fence is not None:
            yield line, True
            if line.strip() == fence:
                fence = None
        else:
            yield line, False


def indented(text):
    """Indents what belongs to an item of a list by four, and puts a blank line before a list."""
    lines, items, before = [], [], ""  # items: column of the text of each open item
    for line, code in fences(text):
        column = len(line) - len(line.lstrip(" "))
        item = None if code else ITEM.match(line)
        if line.strip() and (not code or not items or column < items[-1] or item):
            while items and column < items[-1]:
                items.pop()
        if item:
            if before.strip() and not items and not ITEM.match(before):
                lines.append("")
            lines.append(" " * 4 * len(items) + line[column:])
            items.append(len(item[0]))
        elif items and line.strip():
            lines.append(" " * (4 * len(items) + column - items[-1]) + line[column:])
        else:
            lines.append(line)
        before = line
    return "\n".join(lines)


class Stage:
    def __init__(self, target):
        self.target, self.done, self.faults = target, set(), []
        files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True).stdout.split("\n")
        self.files = {f for f in files if f and os.path.exists(f)}
        self.folders = {os.path.dirname(f) for f in self.files}
        self.folders |= {f[: m.start()] for f in self.folders for m in re.finditer("/", f)}

    def write(self, path, text):
        path = os.path.join(self.target, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def add(self, path):
        """Adds a file or folder with what it links to, and gives the name of its page."""
        path = path.rstrip("/")
        if path in self.folders:
            readme = path + "/README.md"
            return self.add(readme) if readme in self.files else self.index(path)
        if path not in self.files:
            return None
        page = path if path.endswith((".md",) + STATIC) else path.replace(".html", "_html") + ".md"  # index.html is a page of MkDocs' own
        if path in self.done:
            return page
        self.done.add(path)
        if path.endswith(STATIC):
            os.makedirs(os.path.join(self.target, os.path.dirname(path)), exist_ok=True)
            shutil.copyfile(path, os.path.join(self.target, path))
            return page
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if path.endswith(".md"):
            self.write(page, self.linked(path, text))
        else:
            language = LANGUAGES.get(os.path.splitext(path)[1], "text")
            self.write(page, f"# {os.path.basename(path)}\n\n~~~~~{language}\n{text}\n~~~~~\n")
        return page

    def index(self, folder):
        """A page with a folder's files and folders."""
        page = folder + "/index.md"
        if page in self.done:
            return page
        self.done.add(page)
        names = {f[len(folder) + 1 :].split("/")[0] for f in self.files if f.startswith(folder + "/")}
        entries = []
        for name in sorted(n for n in names if not n.endswith((".png", ".svg", "_test.go"))):
            added = self.add(folder + "/" + name)
            entries.append(f"- [{self.title(folder + '/' + name)}]({os.path.relpath(added, folder)})")
        self.write(page, f"# {folder.removeprefix('docs/').capitalize()}\n\n" + "\n".join(entries) + "\n")
        return page

    def title(self, path):
        """The heading of a document; else the name."""
        name = os.path.basename(path)
        document = path if path.endswith(".md") else path + "/README.md"
        if document in self.files:
            with open(document, encoding="utf-8") as f:
                for line in f:
                    if line.startswith("# "):
                        return line[2:].strip() if path.endswith(".md") else f"{name}: {line[2:].strip()}"
        return name

    def linked(self, path, text):
        folder = os.path.dirname(path)

        def replace(m):
            if re.match(r"[a-z]+:", m[2]):
                return m[0]
            to = os.path.normpath(os.path.join(folder, m[2]))
            page = self.add(to)
            if page is None:
                self.faults.append(f"{path}: {m[2]} is not in the tree")
                return m[0]
            return m[1] + os.path.relpath(page, folder) + m[3]

        return indented("\n".join(line if code else LINK.sub(replace, line) for line, code in fences(text)))


def main():
    if len(sys.argv) != 2:
        sys.exit("stage: write stage.py FOLDER")
    stage = Stage(sys.argv[1])
    shutil.rmtree(stage.target, ignore_errors=True)
    stage.add("README.md")
    for f in sorted(stage.files):
        if f.startswith("docs/"):
            stage.add(f)
    for folder in ("examples", "docs/results", "docs/decisions"):
        stage.add(folder)
    if stage.faults:
        sys.exit("\n".join("docs: " + f for f in stage.faults))


if __name__ == "__main__":
    main()
