"""Acquisition: which free machines each short need takes, by its topology (docs/reference/engine.md#acquisition)."""

import numpy as np

from bigfleet.engine.kernels.jit import helper, kernel
from bigfleet.engine.kernels.pools import SATURATED, fits, is_short, subtract, take

__all__ = ["acquire"]


@helper
def allowed(cell, cell_values, terms, first_term, term_skews, term_offsets, base, balances, least):
    """Whether each of the cell's domains has at most min + skew − 1 machines (docs/reference/engine.md#spread)."""
    for t in range(terms):
        slot = base + term_offsets[first_term + t] + cell_values[cell, t]
        if balances[slot] > least[t] + term_skews[first_term + t] - 1:
            return False
    return True


@helper
def find_least(terms, first_term, term_offsets, term_sizes, base, balances, least):
    """The smallest count of any domain that was seen, for each term."""
    for t in range(terms):
        start = base + term_offsets[first_term + t]
        least[t] = -1
        for slot in range(start, start + term_sizes[first_term + t]):
            if balances[slot] >= 0 and (least[t] < 0 or balances[slot] < least[t]):
                least[t] = balances[slot]


@helper
def cell_number(cells, cell_values, values, terms):
    """The number of a combination of values; `cells` if it is new."""
    for c in range(cells):
        equal = True
        for t in range(terms):
            if cell_values[c, t] != values[t]:
                equal = False
                break
        if equal:
            return c
    return cells


@helper
def cell_before(a, b, cell_values, terms, first_term, term_keys, rank_starts, value_ranks):
    """Whether cell a sorts before b by the texts of its values."""
    for t in range(terms):
        start = rank_starts[term_keys[first_term + t]]
        rank_a, rank_b = value_ranks[start + cell_values[a, t]], value_ranks[start + cell_values[b, t]]
        if rank_a != rank_b:
            return rank_a < rank_b
    return False


@helper
def find_head(
    cell, cell_starts, cell_kinds, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels, taken,
    head_kinds, head_states, head_costs,
):  # fmt: skip
    """The machine that a cell gives next: Idle before Speculative, then cost, then id."""
    head_kinds[cell] = -1
    label = 0
    for i in range(cell_starts[cell], cell_starts[cell + 1]):
        kind = cell_kinds[i]
        for state in range(2):
            segment = pools[state, kind]
            if segment < 0 or taken[state, kind] >= seg_sizes[segment]:
                continue
            if head_kinds[cell] >= 0 and state > head_states[cell]:
                break
            cost = costs[bucket if state else 0, kind]
            machine = seg_rows[seg_starts[segment] + taken[state, kind]]
            if (
                head_kinds[cell] < 0
                or state < head_states[cell]
                or cost < head_costs[cell]
                or (cost == head_costs[cell] and labels[machine] < label)
            ):
                head_kinds[cell], head_states[cell], head_costs[cell] = kind, state, cost
                label = labels[machine]
            break


@helper
def free_domain(
    kinds, n_kinds, key, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels, allocatable_of, allocatable,
    attributes, taken, missing, row, value_ranks,
):  # fmt: skip
    """For a gang that found no domain: one that covers it (cheapest head first), else the one with most machines.

    Idle machines choose if there are any, for that state is tried first; −1 if nothing is free.
    """
    values, width = len(value_ranks), missing.shape[1]
    counts = np.zeros(values, np.int64)
    totals = np.zeros((values, width), np.int64)
    heads = np.full(values, -1, np.int32)
    for state in range(2):
        head_bucket = bucket if state else 0
        chosen, chosen_enough = -1, False
        for i in range(n_kinds):
            kind = kinds[i]
            segment = pools[state, kind]
            left = seg_sizes[segment] - taken[state, kind] if segment >= 0 else 0
            if left <= 0:
                continue
            domain = attributes[key, kind]
            counts[domain] += left
            for d in range(width):
                amount = allocatable[allocatable_of[kind], d]
                much = abs(float(amount) * float(left)) >= SATURATED
                amount = (SATURATED if amount > 0 else -SATURATED) if much else amount * left
                totals[domain, d] = max(-SATURATED, min(SATURATED, totals[domain, d] + amount))
            head = heads[domain]
            if head < 0 or costs[head_bucket, kind] < costs[head_bucket, head]:
                heads[domain] = kind
            elif costs[head_bucket, kind] == costs[head_bucket, head]:
                mine = seg_rows[seg_starts[segment] + taken[state, kind]]
                other = seg_rows[seg_starts[pools[state, head]] + taken[state, head]]
                if labels[mine] < labels[other]:
                    heads[domain] = kind
        for domain in range(values):
            if counts[domain] == 0:
                continue
            enough = True
            for d in range(width):
                if missing[row, d] > 0 and totals[domain, d] < missing[row, d]:
                    enough = False
            if chosen < 0:
                better = True
            elif enough != chosen_enough:
                better = enough
            elif not enough and counts[domain] != counts[chosen]:
                better = counts[domain] > counts[chosen]
            elif costs[0, heads[domain]] != costs[0, heads[chosen]]:
                better = costs[0, heads[domain]] < costs[0, heads[chosen]]
            else:
                better = value_ranks[domain] < value_ranks[chosen]
            if better:
                chosen, chosen_enough = domain, enough
        if chosen >= 0:
            return chosen
    return -1


@helper
def helps(cell, cell_values, terms, first_term, term_offsets, base, wanted):
    """Whether a machine is wanted in one of the cell's values."""
    for t in range(terms):
        if wanted[base + term_offsets[first_term + t] + cell_values[cell, t]]:
            return True
    return False


@helper
def take_spread(
    kinds, n_kinds, terms, first_term, term_keys, term_skews, term_offsets, term_sizes, base, balances, bucket, pools,
    seg_rows, seg_starts, seg_sizes, costs, labels, allocatable_of, allocatable, attributes, rank_starts, value_ranks,
    taken, missing, row, wanted, out, n_out,
):  # fmt: skip
    """Take the cheapest machine of a cell that is not ahead of others, again and again; Idle ones first.

    A row that is met takes one for each value that is `wanted` (ADR-26), ahead or not. A cell is one value for each
    term. Returns (taken so far, how many of this row are Idle).
    """
    cell_values = np.empty((n_kinds + 1, terms), np.int32)
    cell_of = np.full(n_kinds, -1, np.int32)
    values = np.empty(terms, np.int32)
    cells = 0
    for i in range(n_kinds):
        kind = kinds[i]
        pooled, left = 0, 0
        for state in range(2):
            if pools[state, kind] >= 0:
                size = seg_sizes[pools[state, kind]]
                pooled += size
                left += size - taken[state, kind]
        if pooled == 0:
            continue
        whole = True
        for t in range(terms):
            values[t] = attributes[term_keys[first_term + t], kind]
            if values[t] < 0:
                whole = False
            else:
                # Domains of the pool count even if all their machines are taken.
                slot = base + term_offsets[first_term + t] + values[t]
                balances[slot] = max(0, balances[slot])
        if whole and left > 0:
            cell = cell_number(cells, cell_values, values, terms)
            if cell == cells:
                for t in range(terms):
                    cell_values[cell, t] = values[t]
                cells += 1
            cell_of[i] = cell
    cell_starts = np.zeros(cells + 2, np.int64)
    for i in range(n_kinds):
        if cell_of[i] >= 0:
            cell_starts[cell_of[i] + 2] += 1
    for cell in range(cells):
        cell_starts[cell + 2] += cell_starts[cell + 1]
    cell_kinds = np.empty(n_kinds, np.int32)
    for i in range(n_kinds):
        if cell_of[i] >= 0:
            cell_kinds[cell_starts[cell_of[i] + 1]] = kinds[i]
            cell_starts[cell_of[i] + 1] += 1
    head_kinds = np.empty(cells, np.int32)
    head_states = np.empty(cells, np.int32)
    head_costs = np.empty(cells, np.float64)
    for cell in range(cells):
        find_head(
            cell, cell_starts, cell_kinds, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels, taken,
            head_kinds, head_states, head_costs,
        )  # fmt: skip
    least = np.zeros(terms, np.int64)
    first, idle = n_out, 0
    while True:
        met = not is_short(missing, row)
        find_least(terms, first_term, term_offsets, term_sizes, base, balances, least)
        best = -1
        for cell in range(cells):
            if head_kinds[cell] < 0:
                continue
            if met:
                if not helps(cell, cell_values, terms, first_term, term_offsets, base, wanted):
                    continue
            elif not allowed(cell, cell_values, terms, first_term, term_skews, term_offsets, base, balances, least):
                continue
            if best >= 0:
                if head_states[cell] != head_states[best]:
                    if head_states[cell] > head_states[best]:
                        continue
                elif head_costs[cell] != head_costs[best]:
                    if head_costs[cell] > head_costs[best]:
                        continue
                elif not cell_before(cell, best, cell_values, terms, first_term, term_keys, rank_starts, value_ranks):
                    continue
            best = cell
        if best < 0:
            break
        kind, state = head_kinds[best], head_states[best]
        out[n_out] = seg_rows[seg_starts[pools[state, kind]] + taken[state, kind]]
        if state == 0:
            # Idle ones are told first: one moves in front of the Speculative ones of this row.
            machine = out[n_out]
            for place in range(n_out, first + idle, -1):
                out[place] = out[place - 1]
            out[first + idle] = machine
            idle += 1
        n_out += 1
        taken[state, kind] += 1
        subtract(missing, row, allocatable, allocatable_of[kind])
        for t in range(terms):
            slot = base + term_offsets[first_term + t] + cell_values[best, t]
            balances[slot] += 1
            wanted[slot] = 0
        find_head(
            best, cell_starts, cell_kinds, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels, taken,
            head_kinds, head_states, head_costs,
        )  # fmt: skip
    return n_out, idle


@kernel(
    "int64(int32[::1], uint8[::1], int64[:, ::1], int64[:, ::1], int32[::1], uint8[::1], int32[::1], int32[::1],"
    " int64[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], uint8[::1],"
    " int32[::1], int64[::1], int32[::1], int32[::1], int64[:, ::1], int32[:, ::1], int32[::1],"
    " int32[::1], float64[:, ::1], int64[::1], int32[:, ::1], int64[::1], int32[::1], int64[::1],"
    " int64[::1], int32[::1], int64[:, ::1], int32[::1])"
)
def acquire(
    profiles, parked, units, missing, domains, usable, bootstraps, provisions,
    balance_of, balances, term_starts, term_keys, term_skews, term_offsets, term_sizes, wanted,
    seg_rows, seg_starts, seg_sizes, allocatable_of, allocatable, attributes, same_keys,
    buckets, costs, labels, pools, kind_starts, kind_lists, kind_machines,
    rank_starts, value_ranks, taken, out,
):  # fmt: skip
    """Let each row take free machines, in order; returns how many were taken in all.

    Plain rows and gangs: O(matching kinds + taken × log kinds). Spread rows: O(matching kinds × cells + taken × (cells
    + kinds of a cell)). Also says for each row whether any machine at all, free or not, is of use to it.
    """
    kinds = len(allocatable_of)
    candidates = np.empty(kinds, np.int32)
    heap = np.empty(kinds, np.int32)
    n_out = 0
    for row in range(len(profiles)):
        profile = profiles[row]
        bucket = buckets[profile]
        n_kinds = 0
        for i in range(kind_starts[profile], kind_starts[profile + 1]):
            kind = kind_lists[i]
            if kind_machines[kind] > 0 and fits(allocatable, allocatable_of[kind], units, row):
                candidates[n_kinds] = kind
                n_kinds += 1
        usable[row] = n_kinds > 0
        first_term, terms = term_starts[profile], term_starts[profile + 1] - term_starts[profile]
        if parked[row] or (terms == 0 and not is_short(missing, row)):
            continue
        if terms > 0:
            before = n_out
            n_out, idle = take_spread(
                candidates, n_kinds, terms, first_term, term_keys, term_skews, term_offsets, term_sizes,
                balance_of[row], balances, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels,
                allocatable_of, allocatable, attributes, rank_starts, value_ranks, taken, missing, row,
                wanted, out, n_out,
            )  # fmt: skip
            bootstraps[row] = idle
            provisions[row] = n_out - before - idle
            continue
        key = same_keys[profile]
        if key >= 0:
            if domains[row] < 0:
                domains[row] = free_domain(
                    candidates, n_kinds, key, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels,
                    allocatable_of, allocatable, attributes, taken, missing, row,
                    value_ranks[rank_starts[key] : rank_starts[key + 1]],
                )  # fmt: skip
            there = 0
            for i in range(n_kinds):
                if attributes[key, candidates[i]] == domains[row]:
                    candidates[there] = candidates[i]
                    there += 1
            n_kinds = there
        for state in range(2):
            before = n_out
            n_out = take(
                candidates, n_kinds, state, bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels,
                allocatable_of, allocatable, taken, missing, row, heap, out, n_out,
            )  # fmt: skip
            if state == 0:
                bootstraps[row] = n_out - before
            else:
                provisions[row] = n_out - before
    return n_out
