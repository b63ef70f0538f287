"""Credit: which bound machine counts for which need (spec/engine.md §3.8 and §3.9), for a batch of clusters."""

import numpy as np

from bigfleet.engine.kernels.jit import helper, kernel
from bigfleet.engine.kernels.pools import SATURATED, fits, subtract, take

__all__ = ["credit", "credit_creating", "folds"]


@helper
def bound_at(position, cluster, slab_starts, slab_sizes):  # type: ignore[no-untyped-def]
    """Where in the index a cluster's n-th bound machine is: Configured first, then Configuring."""
    configured = slab_sizes[0, cluster]
    if position < configured:
        return slab_starts[0, cluster] + position
    return slab_starts[1, cluster] + position - configured


@kernel(
    "void(int64[::1], int32[::1], int32[::1], int64[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1],"
    " int32[::1], int32[::1], int64[::1], int32[::1], uint8[:, ::1], int32[::1], int64[:, ::1], uint8[:, ::1],"
    " uint8[::1])"
)
def folds(  # type: ignore[no-untyped-def]
    class_starts, class_profiles, class_plains, class_values, class_creating, slab_starts, slab_sizes,
    seg_rows, seg_kinds, seg_starts, seg_sizes, matches, allocatable_of, allocatable, free_vectors, verdicts,
):  # fmt: skip
    """Whether one machine takes a whole gang: a free one, one of its cluster's, or one being created for it.

    O(classes × (vectors + kinds of the cluster's machines) + machines of the clusters whose gangs no free one takes).
    """
    kinds = len(allocatable_of)
    seen = np.full(kinds, -1, np.int32)
    present = np.empty(kinds, np.int32)
    vectors = free_vectors.shape[1]
    for cluster in range(len(class_starts) - 1):
        found = -1
        for c in range(class_starts[cluster], class_starts[cluster + 1]):
            profile = class_profiles[c]
            verdict = False
            for vector in range(vectors):
                if free_vectors[profile, vector] and fits(allocatable, vector, class_values, c):
                    verdict = True
                    break
            if not verdict:
                if found < 0:
                    found = 0
                    for position in range(slab_sizes[0, cluster] + slab_sizes[1, cluster]):
                        kind = seg_kinds[bound_at(position, cluster, slab_starts, slab_sizes)]
                        if seen[kind] != cluster:
                            seen[kind] = cluster
                            present[found] = kind
                            found += 1
                for i in range(found):
                    kind = present[i]
                    if matches[profile, kind] and fits(allocatable, allocatable_of[kind], class_values, c):
                        verdict = True
                        break
            segment = class_creating[c]
            if not verdict and segment >= 0:
                start = seg_starts[segment]
                for i in range(start, start + seg_sizes[segment]):
                    kind = seg_kinds[i]
                    if matches[profile, kind] and fits(allocatable, allocatable_of[kind], class_values, c):
                        verdict = True
                        break
            verdicts[c] = verdict


@helper
def score(have, domain, missing, row, by_name, capped):  # type: ignore[no-untyped-def]
    """How much of what is missing a domain has: each dimension adds at most 1 if capped (steps 2 to 5)."""
    total = 0.0
    for d in by_name:
        want = missing[row, d]
        if want > 0:
            part = have[domain, d] / want
            total += min(1.0, part) if capped else part
    return total


@helper
def add_capped(totals, domain, allocatable, vector, count):  # type: ignore[no-untyped-def]
    """totals[domain] += allocatable[vector] × count, no further than SATURATED."""
    for d in range(totals.shape[1]):
        amount = allocatable[vector, d]
        if abs(float(amount) * float(count)) >= SATURATED:
            amount = SATURATED if amount > 0 else -SATURATED
        else:
            amount = amount * count
        totals[domain, d] = max(-SATURATED, min(SATURATED, totals[domain, d] + amount))


@helper
def best_domain(  # type: ignore[no-untyped-def]
    domains, count, counts, totals, creditable, own, missing, row, by_name, value_ranks
):
    """The seven steps of the choice (spec/engine.md §3.9); returns (domain, whether it would satisfy)."""
    chosen, best = -1, (2, 0.0, 0.0, 0.0, 0, 0)
    for i in range(count):
        domain = domains[i]
        satisfies = True
        for d in range(missing.shape[1]):
            if missing[row, d] > 0 and totals[domain, d] < missing[row, d]:
                satisfies = False
        has = score(creditable, domain, missing, row, by_name, True)
        if satisfies:
            rank = (
                0,
                -has,
                -score(own, domain, missing, row, by_name, True),
                score(totals, domain, missing, row, by_name, False),
                -counts[domain],
                int(value_ranks[domain]),
            )
        else:
            capped = score(totals, domain, missing, row, by_name, True)
            rank = (1, -capped, -has, 0.0, -counts[domain], int(value_ranks[domain]))
        if chosen < 0 or rank < best:
            chosen, best = domain, rank
    return chosen, best[0] == 0


@kernel(
    "void(int64[:, ::1], int32[:, ::1], int64[::1], int64[::1], int32[::1], int32[::1], uint8[::1], int64[:, ::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1],"
    " uint8[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], int32[::1], float64[:, ::1], int64[::1],"
    " int32[:, ::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], int32[::1],"
    " int64[:, ::1], int32[::1], int32[::1], int32[::1], uint8[::1])"
)
def credit(  # type: ignore[no-untyped-def]
    slab_starts, slab_sizes, position_starts, row_starts, profiles, groups, parked, units, creating_of, sync_rows,
    sync_clusters, seg_rows, seg_kinds, seg_starts, seg_sizes, profile_of, group_of, matches, allocatable_of,
    allocatable, attributes, same_keys, buckets, costs, labels, pools, kind_starts, kind_lists, by_name, left,
    rank_starts, value_ranks, missing, credited, domains, holders, satisfiable,
):  # fmt: skip
    """Credit the rows of a batch of clusters. Plain rows see their own cluster only; gangs are served in `sync` order.

    Machines of a cluster that no row of it can tell apart are chained, so that a row visits only what is of use to it:
    O(machines + kinds × rows of a cluster + claims × chains), and for each gang O(machines of use + matching kinds).
    """
    kinds = len(allocatable_of)
    clusters = len(row_starts) - 1
    followers = np.full(len(holders), -1, np.int32)
    # Chains: those of a cluster are chain_starts[c]:chain_starts[c + 1].
    chain_starts = np.zeros(clusters + 1, np.int64)
    room = 0
    for cluster in range(clusters):
        room += min(position_starts[cluster + 1] - position_starts[cluster], kinds)
    heads = np.full(room, -1, np.int32)
    chain_kinds = np.zeros(room, np.int32)
    local_of = np.full(kinds, -1, np.int32)
    present = np.empty(kinds, np.int32)
    tails = np.empty(kinds, np.int32)
    class_of = np.zeros(kinds, np.int32)
    splits = np.empty((kinds + 1, 2), np.int32)
    for cluster in range(clusters):
        first = position_starts[cluster]
        count = position_starts[cluster + 1] - first
        found = 0
        for position in range(count):
            kind = seg_kinds[bound_at(position, cluster, slab_starts, slab_sizes)]
            if local_of[kind] < 0:
                local_of[kind] = found
                present[found] = kind
                class_of[found] = 0
                found += 1
        # Split the kinds by each row that can use some and not others.
        chains = min(1, found)
        for row in range(row_starts[cluster], row_starts[cluster + 1]):
            if chains == found:
                break
            for c in range(chains):
                splits[c, 0] = -1
                splits[c, 1] = -1
            number = 0
            for local in range(found):
                kind = present[local]
                use = int(matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row))
                c = class_of[local]
                if splits[c, use] < 0:
                    splits[c, use] = number
                    number += 1
                class_of[local] = splits[c, use]
            chains = number
        start = chain_starts[cluster]
        chain_starts[cluster + 1] = start + chains
        for local in range(found):
            chain_kinds[start + class_of[local]] = present[local]
        for position in range(count):
            kind = seg_kinds[bound_at(position, cluster, slab_starts, slab_sizes)]
            c = class_of[local_of[kind]]
            if heads[start + c] < 0:
                heads[start + c] = position
            else:
                followers[first + tails[c]] = position
            tails[c] = position
        for local in range(found):
            local_of[present[local]] = -1

    cursors = row_starts[:-1].copy()
    useful = np.empty(kinds, np.int32)
    values = 0
    for key in range(len(rank_starts) - 1):
        values = max(values, rank_starts[key + 1] - rank_starts[key])
    width = missing.shape[1]
    counts = np.zeros(values, np.int64)
    totals = np.zeros((values, width), np.int64)
    creditable = np.zeros((values, width), np.int64)
    own = np.zeros((values, width), np.int64)
    touched = np.empty(values, np.int32)
    consumed = np.zeros((2, kinds), np.int64)
    unused = np.empty(0, np.int32)
    wanted = np.empty((1, width), np.int64)
    fit = np.empty(allocatable.shape[0], np.uint8)
    candidates = np.empty(kinds, np.int32)
    heap = np.empty(kinds, np.int32)
    used_creating = np.zeros(len(seg_rows) if len(creating_of) and creating_of.max() >= 0 else 0, np.uint8)
    members = np.empty(len(holders), np.int32)
    # The last round has no gang: it serves the rows that are left.
    for turn in range(len(sync_rows) + clusters):
        is_gang = turn < len(sync_rows)
        if is_gang:
            gang, cluster = sync_rows[turn], sync_clusters[turn]
            stop = gang
        else:
            gang, cluster = -1, turn - len(sync_rows)
            stop = row_starts[cluster + 1]
        first = position_starts[cluster]
        row = cursors[cluster]
        while row <= stop:
            if row == stop and not is_gang:
                break
            n_useful = 0
            for c in range(chain_starts[cluster], chain_starts[cluster + 1]):
                kind = chain_kinds[c]
                if matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row):
                    useful[n_useful] = c
                    n_useful += 1
            if row == stop:
                break
            while True:
                short = False
                for d in range(width):
                    if missing[row, d] > 0:
                        short = True
                if not short:
                    break
                best, chain = -1, -1
                for i in range(n_useful):
                    c = useful[i]
                    head = heads[c]
                    while head >= 0 and holders[first + head] >= 0:
                        head = followers[first + head]
                    heads[c] = head
                    if head >= 0 and (best < 0 or head < best):
                        best, chain = head, c
                if best < 0:
                    break
                holders[first + best] = row - row_starts[cluster]
                credited[row] += 1
                heads[chain] = followers[first + best]
                kind = seg_kinds[bound_at(best, cluster, slab_starts, slab_sizes)]
                subtract(missing, row, allocatable, allocatable_of[kind])
            row += 1
        cursors[cluster] = row + 1 if is_gang else row
        if not is_gang:
            continue

        # A gang: what each domain has for it …
        profile, group = profiles[gang], groups[gang]
        key = same_keys[profile]
        n_domains, chosen = 0, -1
        for i in range(n_useful):
            position = heads[useful[i]]
            while position >= 0:
                if holders[first + position] < 0:
                    place = bound_at(position, cluster, slab_starts, slab_sizes)
                    kind, machine = seg_kinds[place], seg_rows[place]
                    domain = attributes[key, kind]
                    if counts[domain] == 0:
                        touched[n_domains] = domain
                        n_domains += 1
                    counts[domain] += 1
                    add_capped(totals, domain, allocatable, allocatable_of[kind], 1)
                    add_capped(creditable, domain, allocatable, allocatable_of[kind], 1)
                    if profile_of[machine] == profile and group_of[machine] == group:
                        add_capped(own, domain, allocatable, allocatable_of[kind], 1)
                position = followers[first + position]
        for vector in range(allocatable.shape[0]):
            fit[vector] = fits(allocatable, vector, units, gang)
        segment = creating_of[gang]
        if segment >= 0:
            start = seg_starts[segment]
            for place in range(start, start + seg_sizes[segment]):
                kind = seg_kinds[place]
                if used_creating[place] or not (matches[profile, kind] and fit[allocatable_of[kind]]):
                    continue
                domain = attributes[key, kind]
                if counts[domain] == 0:
                    touched[n_domains] = domain
                    n_domains += 1
                counts[domain] += 1
                add_capped(totals, domain, allocatable, allocatable_of[kind], 1)
                add_capped(creditable, domain, allocatable, allocatable_of[kind], 1)
                add_capped(own, domain, allocatable, allocatable_of[kind], 1)
        if not parked[gang]:
            for i in range(kind_starts[profile], kind_starts[profile + 1]):
                kind = kind_lists[i]
                if left[kind] > 0 and fit[allocatable_of[kind]]:
                    domain = attributes[key, kind]
                    if counts[domain] == 0:
                        touched[n_domains] = domain
                        n_domains += 1
                    counts[domain] += left[kind]
                    add_capped(totals, domain, allocatable, allocatable_of[kind], left[kind])
        # … which it chooses …
        if n_domains > 0:
            chosen, satisfies = best_domain(
                touched, n_domains, counts, totals, creditable, own, missing, gang, by_name,
                value_ranks[rank_starts[key] : rank_starts[key + 1]],
            )  # fmt: skip
            domains[gang] = chosen
            satisfiable[gang] = satisfies
        for i in range(n_domains):
            domain = touched[i]
            counts[domain] = 0
            for d in range(width):
                totals[domain, d] = 0
                creditable[domain, d] = 0
                own[domain, d] = 0
        if n_domains == 0:
            continue
        # … and what it claims there: its own machines, those being created for it, then the others.
        for part in range(3):
            n_members = 0
            if part == 1:
                if segment < 0:
                    continue
                start = seg_starts[segment]
                for place in range(start, start + seg_sizes[segment]):
                    kind = seg_kinds[place]
                    if used_creating[place] or attributes[key, kind] != chosen:
                        continue
                    if not (matches[profile, kind] and fit[allocatable_of[kind]]):
                        continue
                    short = False
                    for d in range(width):
                        if missing[gang, d] > 0:
                            short = True
                    if not short:
                        break
                    used_creating[place] = 1
                    credited[gang] += 1
                    subtract(missing, gang, allocatable, allocatable_of[kind])
                continue
            for i in range(n_useful):
                position = heads[useful[i]]
                while position >= 0:
                    if holders[first + position] < 0:
                        place = bound_at(position, cluster, slab_starts, slab_sizes)
                        machine = seg_rows[place]
                        is_own = profile_of[machine] == profile and group_of[machine] == group
                        if is_own == (part == 0) and attributes[key, seg_kinds[place]] == chosen:
                            members[n_members] = position
                            n_members += 1
                    position = followers[first + position]
            members[:n_members].sort()
            for i in range(n_members):
                short = False
                for d in range(width):
                    if missing[gang, d] > 0:
                        short = True
                if not short:
                    break
                position = members[i]
                holders[first + position] = gang - row_starts[cluster]
                credited[gang] += 1
                kind = seg_kinds[bound_at(position, cluster, slab_starts, slab_sizes)]
                subtract(missing, gang, allocatable, allocatable_of[kind])
        # What it will acquire there is set aside: later gangs rank without it.
        if parked[gang]:
            continue
        n_candidates = 0
        for i in range(kind_starts[profile], kind_starts[profile + 1]):
            kind = kind_lists[i]
            if left[kind] > 0 and attributes[key, kind] == chosen and fit[allocatable_of[kind]]:
                candidates[n_candidates] = kind
                n_candidates += 1
                left[kind] += consumed[0, kind] + consumed[1, kind]
        for d in range(width):
            wanted[0, d] = missing[gang, d]
        for state in range(2):
            take(
                candidates, n_candidates, state, buckets[profile], pools, seg_rows, seg_starts, seg_sizes, costs, labels,
                allocatable_of, allocatable, consumed, wanted, 0, heap, unused, 0,
            )  # fmt: skip
        for i in range(n_candidates):
            kind = candidates[i]
            left[kind] -= consumed[0, kind] + consumed[1, kind]


@kernel(
    "void(int32[::1], int32[::1], int64[:, ::1], int64[:, ::1], int64[::1], int32[::1], int64[::1], int32[::1],"
    " uint8[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1])"
)
def credit_creating(  # type: ignore[no-untyped-def]
    profiles, creating_of, units, missing, credited, seg_kinds, seg_starts, seg_sizes, matches, allocatable_of,
    allocatable, attributes, term_starts, term_keys, term_offsets, balance_of, balances,
):  # fmt: skip
    """Credit plain rows with what is being created for them, in order. O(Creating machines of their profiles)."""
    used = np.zeros(len(seg_kinds), np.uint8)
    for row in range(len(profiles)):
        segment = creating_of[row]
        if segment < 0:
            continue
        profile = profiles[row]
        start = seg_starts[segment]
        for place in range(start, start + seg_sizes[segment]):
            short = False
            for d in range(missing.shape[1]):
                if missing[row, d] > 0:
                    short = True
            if not short:
                break
            kind = seg_kinds[place]
            if used[place] or not (matches[profile, kind] and fits(allocatable, allocatable_of[kind], units, row)):
                continue
            used[place] = 1
            credited[row] += 1
            subtract(missing, row, allocatable, allocatable_of[kind])
            if balance_of[row] >= 0:
                term = term_starts[profile]
                for t in range(term_starts[profile + 1] - term):
                    value = attributes[term_keys[term + t], kind]
                    if value >= 0:
                        slot = balance_of[row] + term_offsets[term + t] + value
                        balances[slot] = max(0, balances[slot]) + 1
