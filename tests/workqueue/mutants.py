"""Mistakes that the tests plant in the scripts: each must be noticed.

A change of a script keeps these texts matching: a mistake whose text is in no script fails its test.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from distq.redisio import scripts


@dataclass(frozen=True)
class Mutant:
    """A mistake in the scripts that the comparison must notice."""

    name: str
    text: str
    instead: str
    many: bool = False  # it takes many items to see it


MUTANTS = [
    Mutant("no dirty flag", "ZADD', dirty, 'LT' }", "ZADD', ready, 'LT' }"),
    Mutant("last in, first out", "call('ZPOPMIN', ready, want)", "call('ZPOPMAX', ready, want)"),
    Mutant("promoted 1 ms early", "math.floor(now / 1000) * 2048", "math.floor(now / 1000 + 1) * 2048"),
    Mutant("fence not checked", "prefix = number .. ' ' .. last_fence .. ' '", "prefix = number .. ' '"),
    Mutant("settled twice in one turn", " and not taken[item] then", " then"),
    Mutant(
        "replay record dropped",
        "number, this_turn .. fence",
        "number, ours .. '0 ' .. fence",
    ),
    Mutant(
        "a Redis that went back not noticed",
        "if after ~= '' then return 'BACK '",
        "if false then return 'BACK '",
    ),
    Mutant(
        "failure record leaked",
        "if n_failures > 0 then n_failures = n_failures - call('HDEL', failures, unpack(ended)) end",
        "",
    ),
    Mutant(
        "done forgets what backs off", "elseif not pending and not call('ZSCORE', delayed, item) then", "else"
    ),
    Mutant("kept failures forgotten", "if outcome == 'after' then call('HDEL'", "if true then call('HDEL'"),
    Mutant("clock without a greatest step", "math.min(now - seen, tonumber(max_clock_step))", "now - seen"),
    Mutant("suspects not alone", "if is_suspect(failure) then", "if false then"),
    Mutant(
        "suspect beside others",
        "local holds = call('ZCOUNT', processing, number, number) > 0",
        "local holds = false",
    ),
    Mutant("everybody empties itself", "if may_empty or (not holds", "if true or (not holds"),
    Mutant("no session empties itself", "if may_empty or (not holds", "if not holds or (not holds"),
    Mutant("emptying outlives its session", "call('ZCOUNT', processing, emptying, emptying) == 0", "false"),
    Mutant(
        "emptying for ever", "local in_time = took >= 0 and took < EMPTYING_AT_MOST", "local in_time = since"
    ),
    Mutant(
        "emptying without end", "elseif ours then\n      call('HDEL'", "elseif false then\n      call('HDEL'"
    ),
    Mutant("emptied again at once", "took < EMPTYING_AT_MOST or took >= 2 * EMPTYING_AT_MOST", "true"),
    Mutant("siblings claimed beside a suspect", "alone, popped, records = 1, {}, {}", "alone = 1"),
    Mutant("a suspect that was met is lost", "if #to_suspects > 3 then call(unpack(to_suspects)) end", ""),
    Mutant("a suspect ends the look", "or met >= SET_APART_AT_LEAST", "or met > 0"),
    Mutant("lost before a suspect", "if #left > 2 then call(unpack(left)) end", ""),
    Mutant("a suspect claimed and waiting", "          call('ZREM', suspects, suspect)\n", ""),
    Mutant(
        "the last suspect first",
        "unpack(call('ZRANGE', suspects, '0', '0', 'WITHSCORES'))",
        "unpack(call('ZREVRANGE', suspects, '0', '0', 'WITHSCORES'))",
    ),
    Mutant("suspects before all others", "or tonumber(order) < tonumber(popped[2])", "or true"),
    Mutant("suspects behind all others", "or tonumber(order) < tonumber(popped[2])", "or false"),
    Mutant("a suspect twice, by an add", "elseif suspected[item] then", "elseif false then"),
    Mutant("a suspect delayed, too", "(is_suspect[item] and to_suspects) or", ""),
    Mutant(
        "a suspect twice, by a failure", "pending or (call('ZSCORE', suspects, item) and suspects)", "pending"
    ),
    Mutant(
        "suspects take no room",
        "ipairs({ ready, suspects, dirty, delayed }) do free",
        "ipairs({ ready, dirty, delayed }) do free",
    ),
    Mutant(
        "no room for suspects that wait",
        "or later[i] or suspected[i] or is_held_back[i]) then",
        "or later[i] or is_held_back[i]) then",
    ),
    Mutant(
        "a suspect unrouted though pending",
        "now_ready[i] or suspected[i] or later[i] or held[i]",
        "now_ready[i] or later[i] or held[i]",
    ),
    Mutant("a suspect not deleted", "states[''] = { ready, suspects,", "states[''] = { ready,"),
    Mutant(
        "a suspect not deleted as ready",
        "ready = { ready, suspects, held_back }",
        "ready = { ready, held_back }",
    ),
    Mutant("a suspect not requeued as ready", "or also_chosen[i] or", "or"),
    Mutant("a suspect dead and waiting", "if #from_suspects > 2 then call(unpack(from_suspects)) end", ""),
    Mutant("forgotten and apart", "look_again(items)\nreturn dropped", "return dropped"),
    Mutant("requeued and apart", "look_again(items)\nreturn requeued", "return requeued"),
    Mutant("forgiven and apart", "if #names > 0 then look_again(names) end", ""),
    Mutant("out of date and apart", "look_again(call('ZRANGE', suspects, from, from + 99))", "0"),
    Mutant("all suspects looked at again", "from, from + 99))", "0, -1))", many=True),
    Mutant("suspects looked at from the first on", "now % n_suspects or 0", "0 or 0", many=True),
    Mutant("no suspect for long", "(held[i] or not is_suspect(failure)) then", "true then"),
    Mutant(
        "behind the others as of now", "= orders[i], items[i], items[i]", "= 2 ^ 52 + now, items[i], items[i]"
    ),
    Mutant(
        "no session woken for suspects",
        "call('ZCARD', ready) + n_suspects - unclaimable",
        "call('ZCARD', ready)",
    ),
    Mutant(
        "suspects do not wait",
        "ipairs({ ready, suspects, held_back }) do\n      local from",
        "ipairs({ ready, held_back }) do\n      local from",
    ),
    Mutant(
        "suspects not counted",
        "    call('ZCARD', ready) + call('ZCARD', suspects) +",
        "    call('ZCARD', ready) +",
    ),
    Mutant("another alone in the replay", "{ fence, 0, tonumber(alone), refusals", "{ fence, 0, 0, refusals"),
    Mutant(
        "crashes counted alone",
        "'+inf') > 0",
        "'+inf') >= 0",
    ),
    Mutant("asked to stop, and a crash all the same", "not was_stopping and", ""),
    Mutant("crashes count for ever", "if now - fence < COUNT_FOR then", "if true then"),
    Mutant("crashes forgotten at once", "if now - fence < COUNT_FOR then", "if false then"),
    Mutant("forgiven for others", "if each == fence then found = true", "if true then found = true"),
    Mutant("nothing forgiven", "if each == fence then found = true", "if false then found = true"),
    Mutant("forgiven and dead", "if #revived > 0 then", "if false then"),
    Mutant("forgiven and suspect", "forgiven + 1, math.max(0, crashes - 1)", "forgiven + 1, crashes"),
    Mutant(
        "the rest of a session that lives crashed",
        "if record == 'lapsed' then call('HDEL', meta, number) end",
        "",
        many=True,
    ),
    Mutant("closing counts as a crash", "and call('HEXISTS', meta, session_number) == 1", ""),
    Mutant(
        "dead though pending",
        "if call('ZSCORE', dirty, item) or call('ZSCORE', delayed, item) then return false end",
        "",
    ),
    Mutant(
        "release to the end",
        "if outcome == 'release' then return put_back(item, score) end",
        "if outcome == 'release' then return put_back(item, order(priority, stamp)) end",
    ),
    Mutant("bucket without debt", "math.max(0, now - (tonumber(at) or now)) / 1000000", "1"),
    Mutant("latest delay wins", "math.min(due, own_due)", "math.max(due, own_due)"),
    Mutant("a delay survives an add", "if undelay then call(unpack(undelay)) end", ""),
    Mutant("due but moved by an add", "if own_due <= now and own >= priority then since = own_due end", ""),
    Mutant(
        "due and raised to the front",
        "if own_due <= now and priority > own_priority then own_due = now - now % 1000 end",
        "",
    ),
    Mutant(
        "failure beside an add loses its priority",
        "    defer(item, back_off(own_limiter, count), priority, pending and ready)\n",
        "    if not pending then defer(item, back_off(own_limiter, count), priority) end\n",
    ),
    Mutant("no delay is one", "elseif delay == 0 then\n", "elseif false then\n"),
    Mutant("a commit ignores its delay", "if #items > 0 and delay > 0 then", "if false then"),
    Mutant("kept pending overrun later", "if not (later[item] or parked[item]) then", "if true then"),
    Mutant(
        "kept pending overrun", "if not (keep_pending and (due[item] or parked[item])) then", "if true then"
    ),
    Mutant(
        "unrouted though pending",
        "if now_ready[i] or suspected[i] or later[i] or held[i] or is_held_back[i] then",
        "if suspected[i] or later[i] or held[i] or is_held_back[i] then",
    ),
    Mutant("unmapped for ever", "if parked[i] and string.find(", "if false and string.find("),
    Mutant("unparked for others", "' .. reason .. ' ') then", "') then"),
    Mutant("reports not written", "and after ~= batch then", "then"),
    Mutant("last batch not compared", "if (last_batch or '') ~= after then", "if false then"),
    Mutant("epochs compared as text", "#a < #b or (#a == #b and a < b)", "a < b"),
    Mutant(
        "no session woken", "if may_claim and tokens == 0 and (left > 0 or not covered) then", "if false then"
    ),
    Mutant(
        "token heap",
        "if (newly_ready > 0 or another_is_first) and tokens == 0 and",
        "if newly_ready > 0 and",
    ),
    Mutant("pause ignored", "if paused then want = 0 end", ""),
    Mutant("watches not waited for", "paused = catching_up", "paused = paused"),
    Mutant("watches waited for without end", "return left > 0 and left <= A_DAY", "return true"),
    Mutant("wait of an older leader", "and older(epoch, theirs) then return 0 end", "and false then end"),
    Mutant("wait ended by another leader", "or '', '^%d+') ~= epoch then", "or '', '^%d+') == nil then"),
    Mutant("fleet limit ignored", "if fleet then want = math.max", "if false then want = math.max"),
    Mutant(
        "a held item dead",
        "if not held[i] and (now_ready[i] or",
        "if (now_ready[i] or",
    ),
    Mutant("settled twice in other ways", "not settled[item] and is_ours", "is_ours"),
    Mutant("the dead stay dead", "if revive then call(unpack(revive)) end", ""),
    Mutant("requeued with its past", "n_failures > 0 and call('HDEL', failures, item) == 1", "false"),
    Mutant("revived though parked by hand", "tonumber(were_dead[i]) >= WAITING_MAY_HELP", "false"),
    Mutant("all the dead made dead anew", "tonumber(were_dead[i]) >= WAITING_MAY_HELP", "true"),
    Mutant("the dead forgotten", "if not parked[i] then dropped", "if true then dropped"),
    Mutant("given up too soon", "count > tonumber(max_retries)", "count >= tonumber(max_retries)"),
    Mutant("last error lost", "text ~= '' and text or last", "text"),
    Mutant(
        "pending since it was promoted",
        "to[#to + 1] = order(priority, since)",
        "to[#to + 1] = order(priority, now)",
    ),
    Mutant("sessions lapse at once", "clock + claim_duration, number", "clock + 0, number"),
    Mutant("set aside for no reason", "now_text, 'unreadable', text,", "now_text, '-', text,"),
    Mutant(
        "sampled with each heartbeat",
        "if last and math.floor(last / 10)",
        "if false and math.floor(last / 10)",
    ),
    Mutant("sampled once for ever", "math.floor(last / 10) == math.floor(at / 10)", "true"),
    Mutant(
        "a chunk out of date kept",
        "if string.sub(kept, 1, #begins) ~= begins then kept",
        "if kept == '' then kept",
    ),
    Mutant(
        "sampled twice in one period", "if before and math.floor(before / period) >=", "if false and 0 >="
    ),
    Mutant("who waits at a lower level not seen", "for _ = 1, 10 do", "for _ = 1, 1 do"),
    Mutant("what is due does not wait", "local since = due[2] and", "local since = false and"),
    Mutant("settled counted anew", "math.max(0, after - before)", "after"),
    Mutant(
        "durations counted anew", "math.max(0, (new[letter] or 0) - (old[letter] or 0))", "(new[letter] or 0)"
    ),
    Mutant(
        "durations counted of a process of 0.1.0", "before and after and counts(after)", "counts(after or '')"
    ),
    Mutant("waiting not counted where nothing was settled", "== 0 and waiting == waiting_now", "== 0"),
    Mutant("waiting taken for working", "grown(worked or '', working,", "grown(worked or '', waiting,"),
    Mutant("durations in two samples", "call('HDEL', history, ring .. ' durations')", ""),
    Mutant(
        "durations of one ring in the other",
        "call('HGET', history, ring .. ' durations')",
        "call('HGET', history, '10s durations')",
    ),
    Mutant("settled and lost with the session", "pcall(count_settled)\nreturn 1", "return 1"),
    Mutant("dead though pending again", "if not pending and park(item) then", "if park(item) then"),
    Mutant("unreadable forgotten", "if outcome == 'unreadable' then", "if false then"),
    Mutant("revived too soon", "+ now - revive_after", "+ now - revive_after + 1"),
    Mutant("the last word revived", "park(item, outcome ~= 'park')", "park(item, true)"),
    Mutant("who killed workers stays dead", ">= 3 and park(item, true)", ">= 3 and park(item)"),
    Mutant("revived as of now", "due[i + 1] - WAITING_MAY_HELP + revive_after", "now"),
    Mutant("revived and dead", "call(unpack(revive))\n    if by_flow then", "if by_flow then"),
    Mutant("no wake-up for the dead", "if parked_at then next_due =", "if false then next_due ="),
    Mutant("linked to what came later", "if since > last or since < first then", "if since > last then"),
    Mutant("linked to what was added before", "linked[i / 2] = since >= first and", "linked[i / 2] ="),
    Mutant("a delay linked to who was there by chance", "and since % 1000 ~= 0 and link", "and link"),
    Mutant("a link for one too many", "string.format('%.0f ', before + 1)", "string.format('%.0f ', before)"),
    Mutant(
        "a link for one too few", "string.format('%.0f ', before + 1)", "string.format('%.0f ', before + 2)"
    ),
    Mutant("no link in the replay", "records, 0, 0, linked }", "records, 0, 0 }"),
    Mutant("links that no session wants", "if wants_links ~= '' then", "if true then"),
    Mutant("a flow ends where it began", "zadd[at], ends[place] = start, ended", "zadd[at] = start"),
    Mutant(
        "a flow begins anew with each add",
        "ends[place] = start or of.begins",
        "ends[place] = of.begins",
    ),
    Mutant("a flow begins anew with one item", "if not level[2] or start <= begins or", "if true or"),
    Mutant("a flow ends where its one item is", "string.format('%d', start + 1), flow)", "order, flow)"),
    Mutant("one item not raised in a fair queue", "if present and tonumber(present) < 2 ^ 53", "if present"),
    Mutant("a flow owes for what is over", "if each.is_empty then call('ZREM", "if false then call('ZREM"),
    Mutant("a flow begins now", "begins = begins or text,", "begins = text,"),
    Mutant("the past of flows kept", "call('ZREMRANGEBYSCORE', flows, math.ldexp(0.5, exponent), last)", ""),
    Mutant("not raised in a fair queue", "if present and tonumber(present) < beyond", "if present"),
    Mutant("each bare key a flow", "match(item, '^([^/]*)/') or ''", "match(item, '^([^/]*)/') or item"),
    Mutant("a suspect waits for its turn", "zadd[at] = level.begins", "zadd[at] = order"),
    Mutant("promoted past the flows", "if by_flow and #to_ready > 3 then by_flow(to_ready) end", ""),
    Mutant("dirty past the flows", "if by_flow then by_flow(added_again) end", ""),
    Mutant(
        "no suspect, and in the past",
        "do to_ready[i] = no_earlier(to_ready[i + 1], to_ready[i]) end",
        "do no_earlier(to_ready[i + 1], to_ready[i]) end",
    ),
    Mutant("back by its time", "elseif went_by_time or tonumber(order)", "elseif tonumber(order)"),
    Mutant("put back into the past", "if by_flow then score = no_earlier(item, score) end", ""),
    Mutant(
        "a flow owes for what went on",
        "call('ZREMRANGEBYSCORE', flows, lowest, beyond)\n  elseif",
        "elseif",
    ),
    Mutant(
        "pending since its tag", "then popped[2 * i] = order end", "then popped[2 * i] = popped[2 * i] end"
    ),
    Mutant("arrivals leaked", "if by_flow then call('HDEL', arrivals, unpack(ended)) end", ""),
    Mutant("arrivals of poison leaked", "if parked and by_flow then call('HDEL', arrivals, item) end", ""),
    Mutant(
        "arrivals of the deleted leaked",
        "if n_arrivals > 0 and #forget > 2 then call('HDEL'",
        "if false then call('HDEL'",
    ),
    Mutant(
        "a handle changes what a user said",
        "if before then return string.match(before, '^to (.*)') or before end",
        "",
    ),
    Mutant(
        "what comes goes ahead of what waits",
        "if order < edge or (arrived[n]",
        "if order >= edge or (arrived[n]",
        many=True,
    ),
    Mutant("entered by its time", "if key == ready then into_flows(zadd, enter, {}) end", "", many=True),
    Mutant(
        "the first enter again",
        "call('HSET', meta, 'entered', string.format('%s %s %d', entering, last, stay))",
        "",
        many=True,
    ),
    Mutant(
        "suspects keep their times",
        "key == suspects and no_earlier(names[i], page[2 * i])",
        "key == suspects and page[2 * i]",
        many=True,
    ),
    Mutant("more of a flow than its limit", "if claimed[flow] < limit and (not", "if (not"),
    Mutant("held back and lost", "call(unpack(to_held_back))", ""),
    Mutant("held back and never found", "call(unpack(entries))\n        call(unpack(let_in))", ""),
    Mutant(
        "ahead of those that are held back", "return first[flow] < math.ldexp(1, exponent)", "return false"
    ),
    Mutant("behind those that are held back", " or call('ZSCORE', flow_items, entry_of('l', item))", ""),
    Mutant("held back ends the look", "must_wait(item, order) then\n          met = met + 1", "true then"),
    Mutant("claims of a flow not counted", "    call(unpack(claimed))\n    call(unpack(let_in))\n", ""),
    Mutant(
        "claims of a flow counted for ever", "entry_of('c', item) end\n    call(unpack(entries))", "item end"
    ),
    Mutant("no end of a claim lets in", "if not met[flow] then fill(flow) end", ""),
    Mutant(
        "a lower priority keeps a higher one back",
        "if not other or tonumber(other) < math.ldexp(1, exponent)",
        "if true",
    ),
    Mutant("one flow lets in another", "met[flow] = true", "met[flow] = true; break"),
    Mutant(
        "the last that is held back first",
        "ZRANGEBYLEX', flow_items, from, to, 'LIMIT', '0', look",
        "ZREVRANGEBYLEX', flow_items, to, from, 'LIMIT', '0', look",
    ),
    Mutant(
        "let in twice",
        "call('ZREM', held_back, item)\n      if call('ZSCORE', processing",
        "if call('ZSCORE', processing",
    ),
    Mutant("let in and behind", "if limit then call('ZADD', flow_items, '0', entry_of('l', item)) end", ""),
    Mutant(
        "put back and behind", "if bounded then call('ZADD', flow_items, '0', entry_of('l', item)) end", ""
    ),
    Mutant("a flow catches up by what is let in", "behind > place and", "false and"),
    Mutant(
        "what is let in owes nothing",
        "call('ZADD', flows, string.format('%.17g', place + ",
        "call('ZADD', flows, string.format('%.17g', place + 0 * ",
    ),
    Mutant("stuck without a look", "if looks then look_at_flows() end", ""),
    Mutant("a deleted item takes a place", "          drop_stale(flow)\n", ""),
    Mutant("held back without a limit", "    bring_all_back()\n", ""),
    Mutant("a suspect above the limit", "must_wait = count(flow_of(suspect)) >= limit", ""),
    Mutant(
        "a suspect lets others in",
        "if must_wait then call('ZADD', flow_items, '0', entry_of('l', suspect)) end",
        "",
    ),
    Mutant("held back twice, by an add", "stays = not is_higher(to, stays)", "stays = false"),
    Mutant(
        "held back and raised", "local n_raised = raised and call(unpack(raised)) or 0", "local n_raised = 0"
    ),
    Mutant("dead and delayed", "if call('ZCARD', dead) > 0 then call('ZREM', dead, unpack(items)) end", ""),
    Mutant("held back and delayed", "    if not is_held_back[item] then\n", "    if true then\n"),
    Mutant(
        "held back twice, by a failure",
        "pending or (bounded and call('ZSCORE', held_back, item) and held_back)",
        "pending",
    ),
    Mutant(
        "held back and not deleted",
        "states[''] = { ready, suspects, held_back,",
        "states[''] = { ready, suspects,",
    ),
    Mutant("held back and dead", "if #from_held_back > 2 then call(unpack(from_held_back)) end", ""),
    Mutant("not requeued as ready where held back", "or chosen_held_back[i]) then", ") then"),
    Mutant(
        "what is held back takes no room",
        "if bounded then free = free - call('ZCARD', held_back) end",
        "",
    ),
    Mutant(
        "held back and not counted",
        " + call('ZCARD', held_back),\n    call('ZCARD', delayed)",
        ",\n    call('ZCARD', delayed)",
    ),
    Mutant("unbounded take-back", "local at_most = 100", "local at_most = 1000", many=True),
    Mutant("unbounded promotion", "math.max(want, 100))", "1000)", many=True),
    Mutant(
        "of a small set only the first", "call('ZRANGE', key, '0', '-1')", "call('ZRANGE', key, '0', '0')"
    ),
    Mutant("dirty not seen alone", "local n_dirty = more > 0 and", "local n_dirty = more > 1 and"),
    Mutant(
        "the claim of another, of claims read together",
        "held[all[i]] = all[i + 1]",
        "held[all[i]] = all[2]",
        many=True,
    ),
]


@contextmanager
def planted(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Load all scripts with a mistake; fail where its text is not found."""
    right = {name: scripts.load(name) for name in scripts.names()}
    wrong = {name: _mutated(script, mutant) for name, script in right.items()}
    assert any(wrong[name].source != right[name].source for name in right), f"{mutant.text} is in no script"
    with monkeypatch.context() as patch:
        patch.setattr(scripts, "load", lambda name: wrong[name])
        yield


def _mutated(script: scripts.Script, mutant: Mutant) -> scripts.Script:
    source = script.source.replace(mutant.text, mutant.instead)
    return replace(
        script, source=source, sha=hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    )
