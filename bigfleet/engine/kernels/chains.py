"""Chains: the bound machines of a cluster that none of its needs can tell apart, in keep order."""

import numpy as np

from bigfleet.engine.kernels.jit import helper
from bigfleet.engine.kernels.pools import fits, is_short, subtract


@helper
def bound_at(position, cluster, slab_starts, slab_sizes):
    """Where in the index a cluster's n-th bound machine is: Configured first, then Configuring."""
    configured = slab_sizes[0, cluster]
    if position < configured:
        return slab_starts[0, cluster] + position
    return slab_starts[1, cluster] + position - configured


@helper
def chain_up(
    cluster, slab_starts, slab_sizes, seg_kinds, first, count, first_row, last_row, profiles, units, matches,
    allocatable_of, allocatable, first_local, local_of, locals_, lefts, chain_of, splits, first_chain, heads,
    chain_locals, tails, followers, at_local,
):  # fmt: skip
    """Chain the machines of a cluster that none of its rows can tell apart; returns (its kinds, its chains).

    Position by position in keep order: `at_local` says the kind, `followers` the next of the chain.
    """
    found = 0
    for position in range(count):
        kind = seg_kinds[bound_at(position, cluster, slab_starts, slab_sizes)]
        if local_of[kind] < 0:
            local_of[kind] = first_local + found
            locals_[first_local + found] = kind
            lefts[first_local + found] = 0
            chain_of[first_local + found] = 0
            found += 1
        at_local[first + position] = local_of[kind]
        lefts[local_of[kind]] += 1
    # Split the kinds by each row that can use some and not others.
    chains = min(1, found)
    for row in range(first_row, last_row):
        if chains == found:
            break
        for c in range(chains):
            splits[c, 0] = -1
            splits[c, 1] = -1
        number = 0
        for local in range(first_local, first_local + found):
            kind = locals_[local]
            use = int(matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row))
            c = chain_of[local]
            if splits[c, use] < 0:
                splits[c, use] = number
                number += 1
            chain_of[local] = splits[c, use]
        chains = number
    for local in range(first_local, first_local + found):
        chain_of[local] += first_chain
        chain_locals[chain_of[local]] = local
        local_of[locals_[local]] = -1
    for position in range(count):
        chain = chain_of[at_local[first + position]]
        if heads[chain] < 0:
            heads[chain] = position
        else:
            followers[first + tails[chain - first_chain]] = position
        tails[chain - first_chain] = position
    return found, chains


@helper
def find_useful(
    row, first_chain, last_chain, chain_locals, locals_, profiles, units, matches, allocatable_of, allocatable, useful
):
    """The chains whose machines the row can use; returns how many."""
    count = 0
    for chain in range(first_chain, last_chain):
        kind = locals_[chain_locals[chain]]
        if matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row):
            useful[count] = chain
            count += 1
    return count


@helper
def fill_plain(
    row, number, first, useful, n_useful, heads, followers, owned, holders, at_local, locals_, lefts, allocatable_of,
    allocatable, missing, credited,
):  # fmt: skip
    """Claim the first machine of any useful chain until the row is met (BF-0045)."""
    while is_short(missing, row):
        best, chain = -1, -1
        for i in range(n_useful):
            head = heads[useful[i]]
            while head >= 0 and holders[first + head] >= 0:
                head = followers[first + head]
            heads[useful[i]] = head
            if head >= 0 and (best < 0 or head < best):
                best, chain = head, useful[i]
        if best < 0:
            return
        heads[chain] = followers[first + best]
        claim(
            row, number, first + best, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing,
            credited,
        )  # fmt: skip


@helper
def claim(row, number, place, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing, credited):
    """A bound machine serves the row."""
    local = at_local[place]
    holders[place] = number
    if not owned[place]:
        lefts[local] -= 1
    credited[row] += 1
    subtract(missing, row, allocatable, allocatable_of[locals_[local]])


@helper
def claim_others(
    row, number, first, useful, n_useful, heads, followers, owned, holders, at_local, locals_, lefts, key, domain,
    attributes, members, allocatable_of, allocatable, missing, credited,
):  # fmt: skip
    """Claim any machine of the gang's domain that is no other's, in keep order, until the gang is met."""
    count = 0
    for i in range(n_useful):
        position = heads[useful[i]]
        while position >= 0:
            kind = locals_[at_local[first + position]]
            if holders[first + position] < 0 and not owned[first + position] and attributes[key, kind] == domain:
                members[count] = position
                count += 1
            position = followers[first + position]
    members[:count].sort()
    for i in range(count):
        if not is_short(missing, row):
            return
        claim(
            row, number, first + members[i], owned, holders, at_local, locals_, lefts, allocatable_of, allocatable,
            missing, credited,
        )  # fmt: skip


@helper
def own_chains(cluster, first, count, slab_starts, slab_sizes, seg_owners, row_keys, first_keys, own_heads,
               own_tails, own_followers):  # fmt: skip
    """Chain each row's own machines: acquired for its fingerprint and its group (BF-0051, ADR-21).

    `row_keys` are the keys of the cluster's rows, sorted; `first_keys` is −1 for every profile, before and after.
    """
    for number in range(len(row_keys) - 1, -1, -1):
        first_keys[row_keys[number] >> 32] = number
    for position in range(count):
        place = bound_at(position, cluster, slab_starts, slab_sizes)
        profile = seg_owners[place, 0]
        i = np.int64(first_keys[profile])
        if i < 0:
            continue
        key = np.int64(profile) << 32 | np.int64(seg_owners[place, 1])
        # A plain profile has one key, a gang's has one for each group.
        if row_keys[i] != key:
            i = np.int64(np.searchsorted(row_keys, key))
        if i < len(row_keys) and row_keys[i] == key:
            if own_heads[i] < 0:
                own_heads[i] = position
            else:
                own_followers[first + own_tails[i]] = position
            own_tails[i] = position
    for number in range(len(row_keys)):
        first_keys[row_keys[number] >> 32] = -1


@helper
def set_aside(own, first, own_heads, own_followers, owned, holders, at_local, lefts):
    """What is a row's own counts for no other gang from now on."""
    position = own_heads[own]
    while position >= 0:
        if holders[first + position] < 0:
            owned[first + position] = 1
            lefts[at_local[first + position]] -= 1
        position = own_followers[first + position]


@helper
def claim_own(
    row, number, first, own, own_heads, own_followers, key, domain, counted, attributes, profiles, units, matches,
    owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing, credited, held,
):  # fmt: skip
    """Claim the row's own machines, in keep order, until it is met; of one domain only if `key` says of what.

    What it claims for each value of the key `counted`, if any, is added to `held`. What is claimed leaves the chain:
    rows of one key walk it one after the other.
    """
    before, position, profile = -1, own_heads[own], profiles[row]
    # `known`: the vector that `fit` is about; few have many machines.
    known, fit = -1, False
    while position >= 0 and is_short(missing, row):
        place, follower = first + position, own_followers[first + position]
        kind = locals_[at_local[place]]
        if allocatable_of[kind] != known:
            known = allocatable_of[kind]
            fit = fits(allocatable, known, units, row)
        if holders[place] < 0 and fit and matches[profile, kind] and (key < 0 or attributes[key, kind] == domain):
            # As `claim`, written out: this is the innermost loop.
            holders[place] = number
            if not owned[place]:
                lefts[at_local[place]] -= 1
            credited[row] += 1
            subtract(missing, row, allocatable, known)
            if counted >= 0 and attributes[counted, kind] >= 0:
                add(held, attributes[counted, kind], allocatable, known)
        if holders[place] < 0:
            before = position
        elif before < 0:
            own_heads[own] = follower
        else:
            own_followers[first + before] = follower
        position = follower


@helper
def find_domains(
    row, first_local, last_local, key, locals_, profiles, units, matches, attributes, allocatable_of, allocatable,
    there, held,
):  # fmt: skip
    """Where the row's cluster has machines of use to it; returns how many domains those are. O(kinds of the cluster).

    `there` is 0 everywhere before. What is `held` in each of them is 0 afterwards.
    """
    domains = 0
    for local in range(first_local, last_local):
        kind = locals_[local]
        value = attributes[key, kind]
        usable = matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row)
        if value >= 0 and not there[value] and usable:
            there[value] = 1
            domains += 1
            for d in range(held.shape[1]):
                held[value, d] = 0
    return domains


@helper
def forget_domains(first_local, last_local, key, locals_, attributes, there):
    for local in range(first_local, last_local):
        if attributes[key, locals_[local]] >= 0:
            there[attributes[key, locals_[local]]] = 0


@helper
def count_held(number, first, last, key, locals_, attributes, allocatable_of, allocatable, holders, at_local, held):
    """What a row holds in each domain. O(machines of the cluster)."""
    for place in range(first, last):
        if holders[place] == number:
            kind = locals_[at_local[place]]
            if attributes[key, kind] >= 0:
                add(held, attributes[key, kind], allocatable, allocatable_of[kind])


@helper
def add(held, value, allocatable, vector):
    for d in range(held.shape[1]):
        held[value, d] += allocatable[vector, d]


@helper
def is_lean(row, value, others, domains, wants, pods, held):
    """Whether a domain has less than it must: 1/domains of what is left if all others have max_skew Pods more."""
    for d in range(held.shape[1]):
        least = wants[row, d]
        if others > 0 and pods[row, d] > 0:
            if pods[row, d] > least // others:
                continue
            least -= others * pods[row, d]
        if least > 0 and held[value, d] <= (least - 1) // domains:
            return True
    return False


@helper
def hold_domains(
    row, number, first, own, own_heads, own_followers, key, others, domains, attributes, profiles, units, matches,
    wants, pods, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing, credited, held,
):  # fmt: skip
    """Claim the row's own machines in lean domains, in keep order (ADR-26)."""
    position = own_heads[own]
    while position >= 0:
        place = first + position
        kind = locals_[at_local[place]]
        value = attributes[key, kind]
        usable = matches[profiles[row], kind] and fits(allocatable, allocatable_of[kind], units, row)
        if holders[place] < 0 and value >= 0 and usable and is_lean(row, value, others, domains, wants, pods, held):
            claim(
                row, number, place, owned, holders, at_local, locals_, lefts, allocatable_of, allocatable, missing,
                credited,
            )  # fmt: skip
            add(held, value, allocatable, allocatable_of[kind])
        position = own_followers[place]
