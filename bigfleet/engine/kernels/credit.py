"""Credit: which bound machine counts for which need (docs/reference/engine.md#credit), for a batch of clusters."""

import numpy as np

from bigfleet.engine.kernels.chains import (
    bound_at,
    chain_up,
    claim_others,
    claim_own,
    count_held,
    fill_plain,
    find_domains,
    find_useful,
    forget_domains,
    hold_domains,
    is_lean,
    own_chains,
    set_aside,
)
from bigfleet.engine.kernels.domains import add_capped, best_domain, settled_domain
from bigfleet.engine.kernels.jit import kernel
from bigfleet.engine.kernels.pools import fits, is_short, subtract, take

__all__ = ["credit", "credit_creating", "folds"]


@kernel(
    "void(int64[::1], int32[::1], int64[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1],"
    " int32[::1], int64[::1], int32[::1], uint8[:, ::1], int32[::1], int64[:, ::1], uint8[:, ::1],"
    " uint8[::1])"
)
def folds(
    class_starts, class_profiles, class_values, class_creating, slab_starts, slab_sizes,
    seg_kinds, seg_starts, seg_sizes, matches, allocatable_of, allocatable, free_vectors, verdicts,
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


@kernel(
    "int64(int64[:, ::1], int32[:, ::1], int64[::1], int64[::1], int32[::1], uint8[::1], int64[:, ::1], int64[:, ::1],"
    " int64[:, ::1], int64[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], int64[::1], int64[::1],"
    " int64[::1], int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[:, ::1], uint8[:, ::1],"
    " int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], int32[::1], float64[:, ::1], int64[::1], int32[:, ::1],"
    " int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], int32[::1], int64[:, ::1], int64[::1], int32[::1],"
    " int32[::1], uint8[::1], int32[:, ::1], uint8[::1])"
)
def credit(
    slab_starts, slab_sizes, position_starts, row_starts, profiles, parked, units, wants, pods, term_starts, term_keys,
    term_skews, creating_of, sync_rows, sync_clusters, own_starts, own_keys, own_priorities, own_of, seg_rows,
    seg_kinds, seg_starts, seg_sizes, seg_owners, matches, allocatable_of, allocatable, attributes, same_keys, buckets,
    costs, labels, pools, kind_starts, kind_lists, by_name, left, rank_starts, value_ranks, missing, credited, domains,
    holders, satisfiable, lean, entangled,
):  # fmt: skip
    """Credit the rows of a batch of clusters. Plain rows see their own cluster only; gangs are served in `sync` order.

    Returns how many lean domains there are: `lean` has the row, the number of its term, and the value of each.
    `entangled` are the clusters whose credit depends on what is free or on the way, or on other clusters' gangs; all
    that are so must be in one batch.

    A row claims its own machines first. Machines of a cluster that no row of it can tell apart are chained, so that a
    row visits only what is of use to it: O(machines × log rows + kinds × rows of a cluster + claims × chains), and for
    each gang O(kinds of its cluster + matching kinds + its own machines), and its cluster's machines once more if those
    do not do.
    """
    kinds, clusters, width = len(allocatable_of), len(row_starts) - 1, missing.shape[1]
    followers = np.full(len(holders), -1, np.int32)
    at_local = np.empty(len(holders), np.int32)
    # The kinds and chains of a cluster are at local_starts[c]:local_starts[c + 1], the same for chains.
    local_starts = np.zeros(clusters + 1, np.int64)
    chain_starts = np.zeros(clusters + 1, np.int64)
    room = 0
    for cluster in range(clusters):
        room += min(position_starts[cluster + 1] - position_starts[cluster], kinds)
    locals_ = np.empty(room, np.int32)
    lefts = np.empty(room, np.int64)
    chain_of = np.empty(room, np.int32)
    heads = np.full(room, -1, np.int32)
    chain_locals = np.empty(room, np.int32)
    local_of = np.full(kinds, -1, np.int32)
    splits = np.empty((kinds + 1, 2), np.int32)
    tails = np.empty(kinds, np.int32)
    # The rows' own machines: the keys of a cluster's rows are at own_starts[c]:own_starts[c + 1], sorted.
    own_heads = np.full(len(own_keys), -1, np.int32)
    own_tails = np.empty(len(own_keys), np.int32)
    first_keys = np.full(matches.shape[0], -1, np.int32)
    own_followers = np.full(len(holders), -1, np.int32)
    # Machines that are the own ones of a row as important as the gangs that are being served, or more (ADR-21).
    # Those of rows below that priority are not set aside yet; `lefts` counts the others.
    owned = np.zeros(len(holders), np.uint8)
    aside_from = np.full(clusters, np.iinfo(np.int64).max, np.int64)
    for cluster in range(clusters):
        first, count = position_starts[cluster], position_starts[cluster + 1] - position_starts[cluster]
        found, chains = chain_up(
            cluster, slab_starts, slab_sizes, seg_kinds, first, count, row_starts[cluster], row_starts[cluster + 1],
            profiles, units, matches, allocatable_of, allocatable, local_starts[cluster], local_of, locals_, lefts,
            chain_of, splits, chain_starts[cluster], heads, chain_locals, tails, followers, at_local,
        )  # fmt: skip
        local_starts[cluster + 1] = local_starts[cluster] + found
        chain_starts[cluster + 1] = chain_starts[cluster] + chains
        begin, end = own_starts[cluster], own_starts[cluster + 1]
        if end > begin:
            own_chains(
                cluster, first, count, slab_starts, slab_sizes, seg_owners, own_keys[begin:end],
                first_keys, own_heads[begin:end], own_tails, own_followers,
            )  # fmt: skip

    cursors = row_starts[:-1].copy()
    useful = np.empty(kinds, np.int32)
    values = 0
    for key in range(len(rank_starts) - 1):
        values = max(values, rank_starts[key + 1] - rank_starts[key])
    n_lean = 0
    there = np.zeros(values, np.uint8)
    held = np.zeros((values, width), np.int64)
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
    members = np.empty(len(holders) if len(sync_rows) > 0 else 0, np.int32)
    any_creating = len(creating_of) > 0 and creating_of.max() >= 0
    used_creating = np.zeros(len(seg_rows) if any_creating else 0, np.uint8)
    # Turn by turn a gang, after the plain rows of its cluster that come before it; at last the rows that are left.
    for turn in range(len(sync_rows) + clusters):
        is_gang = turn < len(sync_rows)
        cluster = sync_clusters[turn] if is_gang else turn - len(sync_rows)
        stop = np.int64(sync_rows[turn]) if is_gang else row_starts[cluster + 1]
        first, first_row = position_starts[cluster], row_starts[cluster]
        for row in range(cursors[cluster], stop):
            # What it claims of its own is counted for its first spread term, if it has one.
            first_term = term_starts[profiles[row]]
            n_terms = term_starts[profiles[row] + 1] - first_term
            key, n_domains, counted = -1, 0, n_terms > 0
            if n_terms > 0:
                key = term_keys[first_term]
                n_domains = find_domains(
                    row, local_starts[cluster], local_starts[cluster + 1], key, locals_, profiles, units, matches,
                    attributes, allocatable_of, allocatable, there, held,
                )  # fmt: skip
            claim_own(
                row, row - first_row, first, own_of[row], own_heads, own_followers, -1, -1, key, attributes, profiles,
                units, matches, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing,
                credited, held,
            )  # fmt: skip
            if is_short(missing, row):
                n_useful = find_useful(
                    row, chain_starts[cluster], chain_starts[cluster + 1], chain_locals, locals_, profiles, units,
                    matches, allocatable_of, allocatable, useful,
                )  # fmt: skip
                fill_plain(
                    row, row - first_row, first, useful, n_useful, heads, followers, owned, holders, at_local, locals_,
                    lefts, allocatable_of, allocatable, missing, credited,
                )  # fmt: skip
                counted = False
            # A spread row that is met: does each domain have what the scheduler must put there (ADR-26)? What is kept
            # for one term may help another, so that with several they are looked at once more in the end.
            steps = 0 if is_short(missing, row) else n_terms * min(2, n_terms)
            for step in range(steps):
                term = first_term + step % n_terms
                if not counted:
                    forget_domains(local_starts[cluster], local_starts[cluster + 1], key, locals_, attributes, there)
                    key = term_keys[term]
                    n_domains = find_domains(
                        row, local_starts[cluster], local_starts[cluster + 1], key, locals_, profiles, units, matches,
                        attributes, allocatable_of, allocatable, there, held,
                    )  # fmt: skip
                    count_held(
                        row - first_row, first, position_starts[cluster + 1], key, locals_, attributes, allocatable_of,
                        allocatable, holders, at_local, held,
                    )  # fmt: skip
                counted = False
                others = term_skews[term] * (n_domains - 1)
                if step < n_terms:
                    hold_domains(
                        row, row - first_row, first, own_of[row], own_heads, own_followers, key, others, n_domains,
                        attributes, profiles, units, matches, wants, pods, owned, holders, at_local, locals_, lefts,
                        allocatable_of, allocatable, missing, credited, held,
                    )  # fmt: skip
                if n_terms > 1 and step < n_terms:
                    continue
                for local in range(local_starts[cluster], local_starts[cluster + 1]):
                    value = attributes[key, locals_[local]]
                    if value >= 0 and there[value]:
                        there[value] = 0
                        if is_lean(row, value, others, n_domains, wants, pods, held):
                            lean[n_lean, 0], lean[n_lean, 1], lean[n_lean, 2] = row, term - first_term, value
                            n_lean += 1
            if n_terms > 0:
                forget_domains(local_starts[cluster], local_starts[cluster + 1], key, locals_, attributes, there)
        cursors[cluster] = stop + 1
        if not is_gang:
            continue

        # What each domain has for the gang: its cluster's machines, those being created for it, free ones. The count
        # is written out each time: as a helper it made this kernel a third slower.
        gang, profile = stop, profiles[stop]
        key, segment = same_keys[profile], creating_of[stop]
        for vector in range(allocatable.shape[0]):
            fit[vector] = fits(allocatable, vector, units, gang)
        priority = own_priorities[own_of[gang]]
        if priority < aside_from[cluster]:
            for own_key in range(own_starts[cluster], own_starts[cluster + 1]):
                if priority <= own_priorities[own_key] < aside_from[cluster]:
                    set_aside(own_key, first, own_heads, own_followers, owned, holders, at_local, lefts)
            aside_from[cluster] = priority
        n_domains = 0
        for local in range(local_starts[cluster], local_starts[cluster + 1]):
            kind = locals_[local]
            if lefts[local] > 0 and matches[profile, kind] and fit[allocatable_of[kind]]:
                domain = attributes[key, kind]
                if counts[domain] == 0:
                    touched[n_domains] = domain
                    n_domains += 1
                counts[domain] += lefts[local]
                add_capped(creditable, domain, allocatable, allocatable_of[kind], lefts[local])
        position = own_heads[own_of[gang]]
        while position >= 0:
            kind = locals_[at_local[first + position]]
            if holders[first + position] < 0 and matches[profile, kind] and fit[allocatable_of[kind]]:
                domain = attributes[key, kind]
                if counts[domain] == 0:
                    touched[n_domains] = domain
                    n_domains += 1
                counts[domain] += 1
                add_capped(creditable, domain, allocatable, allocatable_of[kind], 1)
                add_capped(own, domain, allocatable, allocatable_of[kind], 1)
            position = own_followers[first + position]
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
                add_capped(creditable, domain, allocatable, allocatable_of[kind], 1)
                add_capped(own, domain, allocatable, allocatable_of[kind], 1)
        chosen, satisfies = -1, True
        if segment < 0 and not parked[gang]:
            chosen = settled_domain(touched, n_domains, creditable, own, missing, gang, by_name)
        # A parked gang looks at nothing that is free, and takes nothing of it.
        if chosen < 0 and (segment >= 0 or not parked[gang]):
            entangled[cluster] = 1
        for i in range(n_domains):
            for d in range(width):
                totals[touched[i], d] = creditable[touched[i], d]
        if chosen < 0 and not parked[gang]:
            for i in range(kind_starts[profile], kind_starts[profile + 1]):
                kind = kind_lists[i]
                if left[kind] > 0 and fit[allocatable_of[kind]]:
                    domain = attributes[key, kind]
                    if counts[domain] == 0:
                        touched[n_domains] = domain
                        n_domains += 1
                    counts[domain] += left[kind]
                    add_capped(totals, domain, allocatable, allocatable_of[kind], left[kind])
        if n_domains == 0:
            continue
        if chosen < 0:
            chosen, satisfies = best_domain(
                touched, n_domains, counts, totals, creditable, own, missing, gang, by_name,
                value_ranks[rank_starts[key] : rank_starts[key + 1]],
            )  # fmt: skip
        domains[gang] = chosen
        satisfiable[gang] = satisfies
        for i in range(n_domains):
            counts[touched[i]] = 0
            for d in range(width):
                totals[touched[i], d] = 0
                creditable[touched[i], d] = 0
                own[touched[i], d] = 0

        # What it claims there: its own machines, those being created for it, then any.
        claim_own(
            gang, gang - first_row, first, own_of[gang], own_heads, own_followers, key, chosen, -1, attributes,
            profiles, units, matches, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing,
            credited, held,
        )  # fmt: skip
        if segment >= 0:
            start = seg_starts[segment]
            for place in range(start, start + seg_sizes[segment]):
                kind = seg_kinds[place]
                if not is_short(missing, gang):
                    break
                if (
                    not used_creating[place]
                    and attributes[key, kind] == chosen
                    and matches[profile, kind]
                    and fit[allocatable_of[kind]]
                ):
                    used_creating[place] = 1
                    credited[gang] += 1
                    subtract(missing, gang, allocatable, allocatable_of[kind])
        if is_short(missing, gang):
            n_useful = find_useful(
                gang, chain_starts[cluster], chain_starts[cluster + 1], chain_locals, locals_, profiles, units, matches,
                allocatable_of, allocatable, useful,
            )  # fmt: skip
            claim_others(
                gang, gang - first_row, first, useful, n_useful, heads, followers, owned, holders, at_local, locals_,
                lefts, key, chosen, attributes, members, allocatable_of, allocatable, missing, credited,
            )  # fmt: skip

        # What it will acquire there is set aside: later gangs rank without it.
        if parked[gang] or not is_short(missing, gang):
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
                candidates, n_candidates, state, buckets[profile], pools, seg_rows, seg_starts, seg_sizes, costs,
                labels, allocatable_of, allocatable, consumed, wanted, 0, heap, unused, 0,
            )  # fmt: skip
        for i in range(n_candidates):
            left[candidates[i]] -= consumed[0, candidates[i]] + consumed[1, candidates[i]]
    return n_lean


@kernel(
    "void(int32[::1], int32[::1], int64[:, ::1], int64[:, ::1], int64[::1], int32[::1], int64[::1], int32[::1],"
    " uint8[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1], int64[::1], int32[::1], int64[::1], int64[::1],"
    " int64[::1])"
)
def credit_creating(
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
            if not is_short(missing, row):
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
