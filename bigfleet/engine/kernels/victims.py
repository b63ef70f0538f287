"""Preemption: which machines short needs take from work of lower priority (docs/reference/engine.md#preemption)."""

import numpy as np

from bigfleet.engine.kernels.acquire import allowed, cell_number, find_least
from bigfleet.engine.kernels.jit import kernel
from bigfleet.engine.kernels.pools import fits, is_short, subtract

__all__ = ["victims"]


@kernel(
    "int64(int64, int64, int64, int32[::1], uint8[::1], int64[:, ::1], int64[:, ::1], int32[::1], uint8[::1],"
    " int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1],"
    " int32[::1], int32[::1], int64[::1], int64[::1], uint8[::1],"
    " uint8[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], int32[::1], int32[::1], int64)"
)
def victims(
    first_row, last_row, priority, profiles, may, units, deficits, domains, some,
    balance_of, balances, term_starts, term_keys, term_skews, term_offsets, term_sizes,
    machines, machine_kinds, assigned, holders, gone,
    matches, allocatable_of, allocatable, attributes, same_keys, out_machines, out_rows, n_out,
):  # fmt: skip
    """Victims for rows of one priority, in order; returns how many were found in all.

    `machines` are the candidates, the best victim first; `assigned` is the priority that each was acquired for and
    `holders` that of the need it serves now. O(rows × candidates), and for spread rows × cells on top.
    """
    count = len(machines)
    chain = np.empty(count, np.int32)
    for row in range(first_row, last_row):
        if not may[row]:
            continue
        profile = profiles[row]
        key = same_keys[profile]
        first_term, terms = term_starts[profile], term_starts[profile + 1] - term_starts[profile]
        base = balance_of[row]
        cells = 0
        cell_values = np.empty((1 if terms == 0 else count + 1, terms), np.int32)
        cell_heads = np.empty(0 if terms == 0 else count, np.int32)
        cell_tails = np.empty(0 if terms == 0 else count, np.int32)
        values = np.empty(terms, np.int32)
        for i in range(count):
            machine, kind = machines[i], machine_kinds[i]
            if (
                gone[machine]
                or assigned[i] >= priority
                or holders[i] >= priority
                or not matches[profile, kind]
                or (key >= 0 and attributes[key, kind] != domains[row])
                or not fits(allocatable, allocatable_of[kind], units, row)
            ):
                continue
            if terms == 0:
                gone[machine] = 1
                some[row] = 1
                out_machines[n_out], out_rows[n_out] = machine, row
                n_out += 1
                subtract(deficits, row, allocatable, allocatable_of[kind])
                if not is_short(deficits, row):
                    break
                continue
            whole = True
            for t in range(terms):
                values[t] = attributes[term_keys[first_term + t], kind]
                if values[t] < 0:
                    whole = False
                else:
                    slot = base + term_offsets[first_term + t] + values[t]
                    balances[slot] = max(0, balances[slot])
            if whole:
                chain[i] = -1
                cell = cell_number(cells, cell_values, values, terms)
                if cell == cells:
                    for t in range(terms):
                        cell_values[cell, t] = values[t]
                    cell_heads[cell] = i
                    cells += 1
                else:
                    chain[cell_tails[cell]] = i
                cell_tails[cell] = i
        least = np.zeros(terms, np.int64)
        while cells > 0 and is_short(deficits, row):
            find_least(terms, first_term, term_offsets, term_sizes, base, balances, least)
            best = -1
            for cell in range(cells):
                head = cell_heads[cell]
                if head < 0 or (best >= 0 and head > cell_heads[best]):
                    continue
                if allowed(cell, cell_values, terms, first_term, term_skews, term_offsets, base, balances, least):
                    best = cell
            if best < 0:
                break
            taken = cell_heads[best]
            cell_heads[best] = chain[taken]
            gone[machines[taken]] = 1
            some[row] = 1
            out_machines[n_out], out_rows[n_out] = machines[taken], row
            n_out += 1
            subtract(deficits, row, allocatable, allocatable_of[machine_kinds[taken]])
            for t in range(terms):
                balances[base + term_offsets[first_term + t] + cell_values[best, t]] += 1
    return n_out
