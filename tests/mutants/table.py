"""Mistakes that an engine, or a rail beside it, could have, each with the test that notices it. None is equivalent."""

from tests.mutants.mutant import Mutant

_CHANGES = "unit/bigfleet/engine/test_changes.py::test_"
_CONVERT = "unit/bigfleet/shard/test_convert.py::TestDemand::"
_DOMAINS = "unit/bigfleet/engine/test_domains.py::Test"
_EXECUTE = "unit/bigfleet/shard/test_execute.py::Test"
_PARKING = "unit/bigfleet/engine/test_parking.py::test_"
_PHASE1 = "unit/bigfleet/engine/test_phase1.py::Test"
_PHASE2 = "unit/bigfleet/engine/test_phase2.py::Test"
_PHASE3 = "unit/bigfleet/engine/test_phase3.py::Test"
_RATE = "unit/bigfleet/engine/test_rate_cap.py::"
_REPORTS = "unit/bigfleet/engine/test_reports.py::"
_SIMULATED = "unit/bigfleet/sim/test_rails.py::"
_SPREAD = "unit/bigfleet/engine/test_spread.py::test_"

_CREDIT = (
    Mutant(
        "engine/kernels/sorting.py",
        "return penalty_a > penalty_b",
        "return penalty_a < penalty_b",
        _PHASE1 + "Credit::test_machines_are_claimed_in_keep_order",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "return slab_starts[1, cluster] + position - configured",
        "return slab_starts[1, cluster]",
        _CHANGES + "machines_on_their_way_in_count_each_for_what_it_is",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "if head >= 0 and (best < 0 or head < best):",
        "if head >= 0 and (best < 0 or head > best):",
        _CHANGES + "a_machine_that_is_cheaper_is_kept_whatever_its_kind",
    ),
    Mutant(
        "engine/kernels/pools.py",
        "if units[row, d] > 0 and allocatable[vector, d] < units[row, d]:",
        "if units[row, d] > 0 and allocatable[vector, d] <= units[row, d]:",
        _CHANGES + "a_machine_that_just_covers_min_unit_is_of_use",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "return np.where(units > 0, units, wants > 0).astype(np.int64)",
        "return units.astype(np.int64)",
        _PHASE1 + "Credit::test_machines_that_bring_nothing_of_what_is_wanted_are_left_alone",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "every_want[places], every_unit[places], every_pod[places] = wants, _of_use(pods, wants), pods",
        "every_want[places], every_pod[places] = wants, pods",
        _CHANGES + "an_amount_that_grows_is_wanted_of_each_machine_too",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "places = np.flatnonzero(amended[arrangement.which])",
        "places = np.flatnonzero(amended)",
        _CHANGES + "of_needs_that_change_in_amounts_only_each_is_served_by_its_own",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "and need.arrival == self._arrivals[row]",
        "",
        _CHANGES + "a_need_that_was_gone_for_a_while_is_the_younger_one",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "self._class_of[row] < 0",
        "True",
        _CHANGES + "a_gang_that_outgrows_every_machine_no_longer_folds",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "self._profile_ranks(profiles), arrived, -priorities)",
        "self._profile_ranks(profiles), -arrived, -priorities)",
        _CHANGES + "the_older_of_a_clusters_needs_is_served_first",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "if used[place] or not (matches[profile, kind] and fits(allocatable, allocatable_of[kind], units, row)):",
        "if not (matches[profile, kind] and fits(allocatable, allocatable_of[kind], units, row)):",
        _CHANGES + "a_machine_being_created_counts_for_one_cluster",
    ),
)
_OWN_FIRST = (
    Mutant(
        "engine/kernels/credit.py",
        "own_of[row], own_heads, own_followers, -1, -1,",
        "own_of[row], np.full_like(own_heads, -1), own_followers, -1, -1,",
        _PHASE1 + "Credit::test_a_need_claims_its_own_machines_first",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "and fit and matches[profile, kind] and (key",
        "and fit and (key",
        _PHASE1 + "Credit::test_an_own_machine_that_no_longer_serves_is_not_claimed",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "        if holders[place] < 0:\n            before = position\n        elif",
        "        before = -1\n        if holders[place] < 0:\n            pass\n        elif",
        _PHASE1 + "Credit::test_needs_of_one_fingerprint_share_what_is_theirs_and_each_takes_what_it_can_use",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "if priority <= own_priorities[own_key] < aside_from[cluster]:",
        "if False:",
        _DOMAINS + "MachinesOfOthers::test_another_gangs_machines_are_not_taken_though_the_gang_comes_first",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "if priority <= own_priorities[own_key] < aside_from[cluster]:",
        "if own_priorities[own_key] < aside_from[cluster]:",
        _DOMAINS + "MachinesOfOthers::test_machines_of_a_less_important_need_are_taken",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "            aside_from[cluster] = priority\n",
        "            aside_from[cluster] = -1_000_000\n",
        _DOMAINS + "MachinesOfOthers::test_but_not_by_a_gang_as_important_as_their_own_that_comes_after_a_better_one",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "not owned[first + position] and attributes",
        "attributes",
        _DOMAINS + "MachinesOfOthers::test_in_its_own_domain_it_fills_up_with_what_is_nobodys",
    ),
    Mutant(
        "engine/columns/fleet.py",
        "            and profile == self.owner_of[row, _PROFILE]\n",
        "",
        _CHANGES + "a_machine_that_is_bound_for_another_need_changes_who_is_kept",
    ),
)
_FOLDING = (
    Mutant(
        "engine/kernels/credit.py",
        "if free_vectors[profile, vector] and fits(allocatable, vector, class_values, c):",
        "if fits(allocatable, vector, class_values, c):",
        _CHANGES + "a_gang_folds_when_a_machine_comes_that_holds_it_and_unfolds_when_it_goes",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "if not verdict and segment >= 0:",
        "if False:",
        _CHANGES + "a_gang_stays_folded_while_its_host_is_being_created",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "units = np.concatenate([self._min_units[raw], values])",
        "units = np.concatenate([self._min_units[raw], values // 2])",
        _CHANGES + "machines_too_small_for_a_whole_gang_do_not_serve_a_folded_one",
    ),
    Mutant(
        "engine/columns/blocks.py",
        "np.minimum.at(arrivals, self._folded_of[folds], self._class_arrivals[folds])",
        "np.maximum.at(arrivals, self._folded_of[folds], self._class_arrivals[folds])",
        _REPORTS + "TestViews::test_a_folded_gang_is_one_plain_row",
    ),
)
_GANGS = (
    Mutant(
        "engine/kernels/domains.py",
        "has = score(creditable, domain, missing, row, by_name, True)",
        "has = score(creditable, domain, missing, row, by_name, False)",
        _DOMAINS + "Choice::test_step_2_coverage_is_capped_so_surplus_does_not_count",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "-score(own, domain, missing, row, by_name, True),",
        "0.0,",
        _DOMAINS + "Choice::test_step_3_counts_too_where_free_machines_are_needed",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "if covered > most or covered_own > most_own:",
        "if covered > most:",
        _DOMAINS + "Choice::test_step_3_then_more_of_the_gangs_own_machines",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "        elif covered_own == most_own:\n            alone = False\n",
        "",
        _DOMAINS + "Choice::test_step_4_decides_among_domains_that_cover_it_alike_with_what_is_bound",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "if missing[row, d] > 0 and creditable[chosen, d] < missing[row, d]:",
        "if missing[row, d] < 0:",
        _DOMAINS + "Choice::test_step_1_a_domain_that_can_satisfy_beats_one_with_more_credit",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "score(totals, domain, missing, row, by_name, False),\n                -counts",
        "-score(totals, domain, missing, row, by_name, False),\n                -counts",
        _DOMAINS + "Choice::test_step_4_then_the_least_over_commitment",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "rank = (1, -capped, -has, 0.0, -counts[domain], int(value_ranks[domain]))",
        "rank = (1, -capped, has, 0.0, -counts[domain], int(value_ranks[domain]))",
        _DOMAINS + "Choice::test_step_5_then_the_greater_creditable_coverage",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "rank = (1, -capped, -has, 0.0, -counts[domain], int(value_ranks[domain]))",
        "rank = (1, -capped, -has, 0.0, counts[domain], int(value_ranks[domain]))",
        _DOMAINS + "Choice::test_step_6_then_the_larger_count",
    ),
    Mutant(
        "engine/kernels/domains.py",
        "-counts[domain],\n                int(value_ranks[domain]),",
        "-counts[domain],\n                -int(value_ranks[domain]),",
        _DOMAINS + "Choice::test_step_7_then_the_smallest_value",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "        if row_keys[i] != key:\n            i = np.int64(np.searchsorted(row_keys, key))\n",
        "        key = row_keys[i]\n",
        _CHANGES + "another_gangs_machines_come_after_its_own",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "            left[candidates[i]] -= consumed[0, candidates[i]] + consumed[1, candidates[i]]",
        "            pass",
        _DOMAINS + "VirtualConsumption::test_a_later_gang_does_not_count_on_what_an_earlier_one_will_take",
    ),
    Mutant(
        "engine/kernels/credit.py",
        "        if chosen < 0 and not parked[gang]:\n            for i in",
        "        if chosen < 0:\n            for i in",
        _PARKING + "a_parked_gang_keeps_what_it_has_and_acquires_nothing",
    ),
    Mutant(
        "engine/phases/parking.py",
        "return cycles >= self._park_after_cycles and cycles % self._probe_every != 0",
        "return cycles > self._park_after_cycles and cycles % self._probe_every != 0",
        _PARKING + "a_hopeless_gang_is_parked_from_the_ninth_cycle_on_and_probes_at_multiples_of_32",
    ),
    Mutant(
        "engine/phases/acquisition.py",
        "            & (self.bootstraps + self.provisions == 0)\n",
        "",
        _PARKING + "a_gang_that_acquires_something_is_not_hopeless",
    ),
    Mutant(
        "engine/phases/acquisition.py",
        "            & (self.satisfiable == 0)\n",
        "",
        _PARKING + "a_gang_whose_domain_would_do_is_not_hopeless",
    ),
)
_ACQUISITION = (
    Mutant(
        "engine/kernels/pools.py",
        "bucket = 0 if state == 0 else need_bucket",
        "bucket = need_bucket",
        _PHASE1 + "Acquisition::test_idle_machines_go_by_price_alone",
    ),
    Mutant(
        "engine/kernels/pools.py",
        "return labels[row_a] < labels[row_b]",
        "return labels[row_a] > labels[row_b]",
        _CHANGES + "ids_give_the_order_across_kinds",
    ),
    Mutant(
        "core/penalty.py",
        "    if interruption_probability == 0:\n        return price_per_hour\n",
        "",
        _PHASE1 + "Acquisition::test_pinned_work_prefers_machines_that_are_never_interrupted_and_orders_them_by_price",
    ),
    Mutant(
        "engine/kernels/acquire.py",
        "if balances[slot] > least[t] + term_skews[first_term + t] - 1:",
        "if balances[slot] > least[t] + term_skews[first_term + t]:",
        _SPREAD + "the_cheapest_of_the_zones_that_are_not_ahead",
    ),
    Mutant(
        "engine/kernels/acquire.py",
        "return rank_a < rank_b",
        "return rank_a > rank_b",
        _SPREAD + "equal_prices_go_by_zone",
    ),
    Mutant(
        "engine/kernels/acquire.py",
        "        if pooled == 0:\n            continue\n        whole = True",
        "        if left == 0:\n            continue\n        whole = True",
        _SPREAD + "a_zone_that_a_better_need_emptied_still_counts",
    ),
    Mutant(
        "engine/phases/acquisition.py",
        "part[counts > 0] = counts[counts > 0]",
        "part[counts > 0] = 0",
        _SPREAD + "machines_that_the_need_already_has_count",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "if holders[place] < 0 and value >= 0 and usable and is_lean(row, value, others, domains, wants, pods, held):",
        "if holders[place] < 0 and value < 0 and usable and is_lean(row, value, others, domains, wants, pods, held):",
        _SPREAD + "a_met_need_keeps_its_only_machine_of_a_zone",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "if least > 0 and held[value, d] <= (least - 1) // domains:",
        "if least > 0 and held[value, d] <= least // domains:",
        _SPREAD + "a_share_that_is_just_there_is_enough",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "            least -= others * pods[row, d]",
        "            least -= pods[row, d]",
        _SPREAD + "only_as_many_pods_as_leave_no_zone_empty_need_every_zone",
    ),
    Mutant(
        "engine/kernels/chains.py",
        "            if counted >= 0 and attributes[counted, kind] >= 0:",
        "            if counted < 0 and attributes[counted, kind] >= 0:",
        _SPREAD + "machines_that_a_met_need_has_in_a_zone_are_its_share",
    ),
    Mutant(
        "engine/kernels/acquire.py",
        "                if not helps(",
        "                if helps(",
        _SPREAD + "a_zone_that_cannot_be_had_is_no_shortfall",
    ),
    Mutant(
        "engine/phases/acquisition.py",
        "idle = met[(creating[met] < 0) | (fleet.index.sizes[creating[met]] == 0)]",
        "idle = met",
        _SPREAD + "what_is_being_created_for_a_need_may_be_what_it_lacks",
    ),
    Mutant(
        "engine/columns/profiles.py",
        "(keys[term.topology_key], max(1, term.max_skew))",
        "(keys[term.topology_key], term.max_skew)",
        _SPREAD + "a_skew_below_one_counts_as_one",
    ),
    Mutant(
        "engine/phases/acquisition.py",
        "order = np.lexsort((fleet.clusters.ranks()[numbers], arrivals, -priorities))",
        "order = np.lexsort((fleet.clusters.ranks()[numbers], arrivals, priorities))",
        _PHASE1 + "Acquisition::test_the_more_important_need_gets_the_last_machine",
    ),
)
_PREEMPTION = (
    Mutant(
        "engine/kernels/victims.py",
        "or assigned[i] >= priority",
        "or assigned[i] > priority",
        _PHASE2 + "DrainsUnderWay::test_it_does_not_count_for_work_that_could_not_have_preempted_it",
    ),
    Mutant(
        "engine/kernels/victims.py",
        "                or holders[i] >= priority\n",
        "",
        _PHASE2 + "Victims::test_a_machine_that_serves_a_better_need_by_now_is_no_victim",
    ),
    Mutant(
        "engine/kernels/victims.py",
        "or (key >= 0 and attributes[key, kind] != domains[row])",
        "or False",
        _CHANGES + "a_gang_leaves_a_better_victim_of_another_domain_alone",
    ),
    Mutant(
        "engine/kernels/victims.py",
        "            if terms == 0:\n                gone",
        "            if True:\n                gone",
        _PHASE2 + "Spread::test_no_victim_is_taken_that_the_spread_would_not_let_the_need_use",
    ),
    Mutant(
        "engine/phases/preemption.py",
        "& (short.parked == 0) & ~homeless)",
        "& ~homeless)",
        _PARKING + "parked_demand_is_still_a_shortfall_and_takes_no_victims",
    ),
    Mutant(
        "engine/phases/preemption.py",
        "                may[number] = 0\n",
        "                pass\n",
        _PARKING + "a_probe_that_finds_nothing_takes_no_victims",
    ),
    Mutant(
        "core/victims.py",
        "(1 / max(reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1",
        "(1 / max(reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * -0.1",
        _PHASE2 + "Victims::test_the_lowest_priority_goes_first_then_the_lowest_penalties_then_the_id",
    ),
    Mutant(
        "core/victims.py",
        "if gap > above)",
        "if gap >= above)",
        "unit/bigfleet/core/test_victims.py::test_grace_by_gap",
    ),
)
_SHRINKING = (
    Mutant(
        "engine/phases/rate_cap.py",
        "max(1, math.floor(fraction * machines))",
        "math.floor(fraction * machines)",
        _PHASE3 + "Reclaim::test_the_cap_is_a_twentieth_of_the_clusters_machines_and_at_least_one",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "known.excess[preempted[known.excess] == 0] if len(preempted) else known.excess",
        "known.excess",
        _PHASE2 + "Victims::test_excess_that_is_preempted_is_not_reclaimed_as_well",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "kept = machines[:room]",
        "kept = machines[-room:]",
        _PHASE3 + "Reclaim::test_the_cap_keeps_the_head_of_each_clusters_excess",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "- len(taken.open) - len(taken.spent))",
        "- len(taken.open))",
        _RATE + "test_faster_cycles_take_no_more",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "if at + window > now}",
        "if at + window >= now}",
        _RATE + "test_at_the_default_interval_each_cycle_takes_a_twentieth",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "again[np.flatnonzero(~again)[:room]] = True",
        "again[np.flatnonzero(~again)] = True",
        _RATE + "test_what_was_not_carried_out_is_decided_again_and_counts_once",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "        again = self._still_there(fleet, taken, machines)\n",
        "        again = np.zeros(len(machines), np.bool_)\n",
        _RATE + "test_what_was_not_carried_out_is_decided_again_and_counts_once",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "            taken.spent += taken.open.values()\n            taken.open = {}\n",
        "",
        _RATE + "test_a_machine_that_was_wanted_in_between_counts_again",
    ),
    Mutant(
        "engine/phases/rate_cap.py",
        "taken.oldest + self._window",
        "now + self._window",
        _RATE + "test_the_decisions_say_what_waits_and_until_when",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "return bool(self._since) or self._rate.waits",
        "return bool(self._since)",
        _CHANGES + "time_alone_lets_more_be_reclaimed",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "self._rate.grant(fleet, cluster, excess, known.configured, now)",
        "self._rate.grant(fleet, 0, excess, known.configured, now)",
        _RATE + "test_clusters_have_a_rate_each",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "kept = self._rate.grant(fleet, _SHARD, machines,",
        "self._rate.grant(fleet, _SHARD, machines,",
        _RATE + "test_free_machines_are_given_back_at_a_rate_too",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "- speculative)[holds < math.inf].sum())",
        "- speculative).sum())",
        _RATE + "test_what_is_kept_for_ever_does_not_raise_the_rate",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "[:kinds] - speculative)",
        "[:kinds])",
        _RATE + "test_of_all_that_was_bought_a_share_may_go",
    ),
    Mutant(
        "engine/phases/preemption.py",
        """\
        if known is None or segment < 0 or not index.sizes[segment]:
            continue
        start, size = int(index.starts[segment]), int(index.sizes[segment])
        machines.append(index.rows[start : start + size])
        by_row = np.append(known.arrangement.priorities, _NO_PRIORITY)
        priorities.append(by_row[known.holders[:size]])
""",
        """\
        if segment < 0 or not index.sizes[segment]:
            continue
        start, size = int(index.starts[segment]), int(index.sizes[segment])
        machines.append(index.rows[start : start + size])
        if known is None:
            priorities.append(np.full(size, _NO_PRIORITY))
        else:
            by_row = np.append(known.arrangement.priorities, _NO_PRIORITY)
            priorities.append(by_row[known.holders[:size]])
""",
        _PHASE2 + "Victims::test_a_cluster_that_has_not_reported_loses_nothing",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "before.get(machine_id, now)",
        "now",
        _PHASE3 + "Reclaim::test_excess_goes_only_after_it_has_stood_for_the_given_time",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "before, self._since = self._since, {}",
        "before = self._since",
        _PHASE3 + "Reclaim::test_demand_that_comes_back_in_time_keeps_its_machine_and_starts_the_time_anew",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "now - fleet.idle_since[machines] > holds[kind]",
        "now - fleet.idle_since[machines] >= holds[kind]",
        _CHANGES + "time_alone_releases_a_machine",
    ),
    Mutant(
        "engine/phases/reclaiming.py",
        "        machines = machines[np.argsort(fleet.ids.labels[machines])]\n",
        "",
        _CHANGES + "releases_go_by_id_across_kinds",
    ),
)
_TELLING = (
    Mutant(
        "engine/phases/shortfalls.py",
        "ages[fingerprint] = self.ages.get(fingerprint, 0) + 1",
        "ages[fingerprint] = self.ages.get(fingerprint, 1) + 1",
        _REPORTS + "TestShortfalls::test_ages_grow_per_fingerprint_and_a_gap_starts_anew",
    ),
    Mutant(
        "engine/phases/shortfalls.py",
        "(-s.profile.priority, -s.age_cycles, s.fingerprint)",
        "(-s.profile.priority, s.age_cycles, s.fingerprint)",
        _REPORTS + "TestShortfalls::test_the_important_come_first_then_the_old",
    ),
    Mutant(
        "engine/reports.py",
        "age_cycles_unmet=0 if met else self._ages",
        "age_cycles_unmet=self._ages",
        _REPORTS + "TestShortfalls::test_a_satisfied_need_has_no_age_though_another_of_its_fingerprint_is_short",
    ),
    Mutant(
        "engine/reports.py",
        "        if not short.usable[number]:\n            return UnmetReason.NO_MATCHING_SUPPLY\n",
        "",
        _REPORTS + "TestReasons::test_the_first_reason_that_applies",
    ),
    Mutant(
        "engine/reports.py",
        "float(self._prices[:kinds][idle].min())",
        "float(self._prices[:kinds][idle].max())",
        _REPORTS + "TestHints::test_free_machines_of_the_pinned_types_whatever_else_is_required",
    ),
)
_MEMORY = (
    Mutant(
        "engine/kernels/credit.py",
        "entangled[cluster] = 1",
        "entangled[cluster] = 0",
        _CHANGES + "a_gang_whose_rivals_are_alike_follows_what_comes_free",
    ),
    Mutant(
        "engine/phases/credit.py",
        "(self._gangs if creating_changed else self._entangled) - dirty",
        "self._entangled - dirty",
        _CHANGES + "a_gang_that_has_its_place_moves_to_where_machines_are_on_their_way_for_it",
    ),
    Mutant(
        "engine/phases/credit.py",
        "shared = pools_changed or entangled_gone or creating_changed",
        "shared = pools_changed or creating_changed",
        _CHANGES + "a_gang_has_the_choice_of_another_clusters_gang_that_went",
    ),
    Mutant(
        "engine/phases/credit.py",
        "flipped = not np.array_equal(free_vectors, self._free_vectors)",
        "flipped = False",
        _CHANGES + "a_gang_folds_when_a_machine_comes_that_holds_it_and_unfolds_when_it_goes",
    ),
    Mutant(
        "engine/phases/credit.py",
        "due.update(self._folding.intersection(self._changed(fleet.slab_changed)))",
        "pass",
        _CHANGES + "a_gang_folds_onto_a_machine_that_its_cluster_was_given",
    ),
    Mutant(
        "engine/engine.py",
        "unchanged = fleet.change == self._change and not self._parking.restamped",
        "unchanged = fleet.change == self._change",
        _CHANGES + "gangs_park_and_probe_though_nothing_changes",
    ),
    Mutant(
        "engine/columns/fleet.py",
        "            and terms == self.terms_of[row]\n",
        "",
        _CHANGES + "a_new_penalty_changes_who_is_kept",
    ),
    Mutant(
        "engine/columns/fleet.py",
        "            and cluster == self.cluster_of[row]\n",
        "",
        _CHANGES + "a_machine_that_changes_hands_counts_for_its_new_cluster_only",
    ),
    Mutant(
        "engine/columns/dimensions.py",
        "self.units[column] = math.gcd(self.units[column], amount)",
        "self.units[column] = min(self.units[column], amount)",
        _CHANGES + "an_amount_finer_than_all_before_changes_no_other",
    ),
    Mutant(
        "engine/columns/identities.py",
        "self.labels[fresh[start + index]] = low + (index + 1) * step",
        "self.labels[fresh[start + index]] = high + (index + 1) * step",
        _CHANGES + "ids_keep_their_order_in_whatever_order_they_come",
    ),
)

# Not the engine's, but rails that hold beside it (ADR-36).
_RAILS = (
    Mutant(
        "shard/provider/execute.py",
        "return action.kind is ActionKind.RECLAIM and not self._operators.connected(action.cluster)",
        "return False",
        _EXECUTE + "Drain::test_that_nobody_needs_waits_for_the_operators_session",
    ),
    Mutant(
        "shard/provider/execute.py",
        "return action.kind is ActionKind.RECLAIM and not self._operators.connected(action.cluster)",
        "return not action.profile and not self._operators.connected(action.cluster)",
        _EXECUTE + "Drain::test_for_a_more_important_need_goes_on_without_an_operator",
    ),
    Mutant(
        "shard/provider/execute.py",
        "            if action.kind is ActionKind.RECLAIM:\n                raise\n",
        "",
        _EXECUTE + "Drain::test_without_a_word_of_the_operator_is_taken_back_unless_somebody_needs_the_machine",
    ),
    Mutant(
        "shard/inventory/inventory.py",
        "            idle_since = math.inf\n",
        "            pass\n",
        _EXECUTE + "Delete::test_of_a_machine_that_cannot_be_deleted_is_tried_once",
    ),
    Mutant(
        "sim/world/shard.py",
        "if action.kind is ActionKind.RECLAIM and operator and not operator.connected:",
        "if False:",
        _SIMULATED + "test_a_cluster_without_a_session_loses_nothing_until_it_is_back",
    ),
    Mutant(
        "sim/world/shard.py",
        "if not self._model.lockstep and decisions.again_at < math.inf:",
        "if False:",
        _SIMULATED + "test_a_demand_that_drops_by_four_fifths_is_given_back_below_the_cap_a_minute_at_any_cycle_rate",
    ),
    Mutant(
        "core/labels.py",
        'return f"values[{index}]: {error}"',
        'return ""',
        _CONVERT + "test_what_is_no_labels_key_or_value_refuses_the_whole_roll_up_and_is_named",
    ),
    Mutant(
        "core/labels.py",
        "            if value:\n                check_label_value(value)",
        "            check_label_value(value)",
        _CONVERT + "test_a_label_may_be_asked_to_be_empty",
    ),
    Mutant(
        "shard/convert.py",
        'limits.check_selector(f"spread[{index}]", term.topology_key, key_field="topology_key")',
        "pass",
        _CONVERT + "test_a_spread_over_what_is_no_labels_key_is_named",
    ),
    Mutant(
        "operator/rollup.py",
        '    _check_selector(f"requirements[{index}]", item["key"], item.get("values") or ())\n',
        "",
        "unit/bigfleet/operator/test_rollup.py::test_what_the_wire_cannot_say_is_refused_by_name",
    ),
    Mutant(
        "podcontroller/request.py",
        'if problem := selector_problem(expression["key"], expression.get("values") or []):',
        "if False:",
        "unit/bigfleet/podcontroller/test_request.py::test_an_affinity_that_cannot_be_asked_for_is_named",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_CREDIT,
    *_OWN_FIRST,
    *_FOLDING,
    *_GANGS,
    *_ACQUISITION,
    *_PREEMPTION,
    *_SHRINKING,
    *_RAILS,
    *_TELLING,
    *_MEMORY,
)
