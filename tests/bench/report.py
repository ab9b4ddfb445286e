# SPDX-License-Identifier: GPL-2.0-or-later
"""How figures are printed: tables on standard output, and the same as JSON."""
import json
import statistics
import sys


class Report:
    """Prints each table as soon as it is there, and keeps what the JSON file gets."""

    def __init__(self):
        self.sections, self.current, self.reasons = {}, None, []

    def section(self, name, title, *notes):
        self.current = self.sections.setdefault(name, {"title": title, "notes": list(notes), "tables": []})
        print(f"\n== {name}: {title}")
        for note in notes:
            print(f"   {note}")
        sys.stdout.flush()

    def note(self, text):
        self.current["notes"].append(text)
        print(f"   {text}", flush=True)

    def absent(self, tool, why, cells):
        """Cells for a tool that is absent or failed; the reason follows the table."""
        reason = f"{tool}: {why}"
        if reason not in self.reasons:
            self.reasons.append(reason)
        return ["absent", *[""] * (cells - 1)]

    def table(self, head, rows):
        """Cells are texts, numbers or None, which is what was not measured."""
        self.current["tables"].append({"head": head, "rows": rows})
        texts = [[cell_text(cell) for cell in row] for row in [head, *rows]]
        widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
        print()
        for n, row in enumerate(texts):
            cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
            print("   " + "  ".join(cells).rstrip())
            if n == 0:
                print("   " + "  ".join("-" * w for w in widths))
        reasons, self.reasons = self.reasons, []
        for reason in reasons:
            self.note("absent: " + reason)
        sys.stdout.flush()

    def write_json(self, path, machine):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"machine": machine, "sections": self.sections}, f, indent=1)
            f.write("\n")


def cell_text(cell):
    if cell is None:
        return "not measured"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if abs(cell) < 10 else f"{cell:.1f}"
    return str(cell)


def spread(values, digits=0):
    """Median, and in brackets the smallest and the largest."""
    if not values:
        return None
    low, mid, high = min(values), statistics.median(values), max(values)
    return f"{mid:.{digits}f} [{low:.{digits}f}..{high:.{digits}f}]"


def percent(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else None
