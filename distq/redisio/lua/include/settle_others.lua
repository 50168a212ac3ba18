  -- in: added, arrivals, bounded, by_flow, claims, dead, delayed, dirty, ended, failures, held_back, limiter,
  --     max_retries, n_ok, now, number, others, processing, ready, refused, settlements, stamp, suspects
  -- out: added, first, last_stamp, n_failures, stamp
  local now_text = string.format('%.0f', now)
  --- @include order
  --- @include known_order
  --- @include due
  --- @include failure
  --- @include put_back
  --- @include delay
  --- @include limiter
  --- @include is_higher
  local function priority_of(score)
    local _, exponent = math.frexp(score)
    return 53 - exponent
  end
  local function one_more(item, text)
    local count, crashes, _, reason, last, claims_that_crashed = read_failure(item)
    if reason == 'parked' then last = '' end -- the text of a user who parked it is no error
    -- a caller that only asks for a delay gives no text: keep the last one
    return count + 1, crashes, text ~= '' and text or last, claims_that_crashed
  end
  local function back_off(own_limiter, count) return delay_of(own_limiter ~= '' and own_limiter or limiter, count) end
  -- Add an item: this ends a delay, but keeps its priority if that is higher. A due item keeps its place unless it is
  -- raised.
  local function add(item, priority, pending)
    local since, later = stamp, call('ZSCORE', delayed, item)
    if later then
      local own_due, own_priority = split_due(tonumber(later))
      if own_due <= now and own_priority >= priority then since = own_due end
      priority = math.max(priority, own_priority)
      call('ZREM', delayed, item)
    end
    if pending == ready then
      into_ready(item, order(priority, since))
    else
      call('ZADD', pending, order(priority, since), item)
    end
    added = added + 1
  end
  -- Make an item pending after a delay; without one, pending now: ready, or dirty while a session holds it. An item
  -- that is pending now stays so and can only be raised.
  local function defer(item, delay, priority, pending, is_held)
    if delay == 0 then stamp = stamp + 1 end
    if pending == held_back then
      local raised = order(priority, stamp)
      if not is_higher(raised, call('ZSCORE', held_back, item)) then return end
      call('ZREM', held_back, item)
      into_ready(item, raised)
    elseif pending then
      local zadd = { 'ZADD', pending, 'XX', 'LT', order(priority, stamp), item }
      if by_flow and pending ~= dirty then by_flow(zadd) end
      call(unpack(zadd))
    elseif delay == 0 then
      add(item, priority, is_held and dirty or ready)
    else
      call('ZADD', delayed, due_score(call('ZSCORE', delayed, item), now + delay, priority), item)
    end
  end
  local function fail(item, outcome, own_limiter, priority, text, pending)
    local count, crashes, kept, claims_that_crashed = one_more(item, text)
    local gives_up = outcome == 'park' or (max_retries ~= '' and count > tonumber(max_retries))
    local reason = '-'
    if gives_up and not pending and park(item, outcome ~= 'park') then
      reason = outcome == 'park' and 'terminal' or 'retries'
    end
    write_failure(item, count, crashes, now_text, reason, kept, claims_that_crashed)
    if gives_up then return end
    defer(item, back_off(own_limiter, count), priority, pending and ready)
  end
  -- The worker could not read the key or the failure record: make the item dead as it is.
  local function set_aside(item, pending)
    if not pending and park(item) then
      local count, crashes, _, _, text, claims_that_crashed = read_failure(item)
      write_failure(item, count, crashes, now_text, 'unreadable', text, claims_that_crashed)
    elseif call('HEXISTS', failures, item) == 1 then
      write_failure(item, read_failure(item))
    end
  end
  local function settle(item, score, was_dirty, outcome, own_limiter, priority, text)
    priority = tonumber(priority) or priority_of(score)
    if outcome == 'release' then return put_back(item, score) end
    if by_flow then call('HDEL', arrivals, item) end
    local pending = was_dirty and call('ZSCORE', dirty, item)
    if pending then
      call('ZREM', dirty, item)
      into_ready(item, pending)
    end
    if outcome == 'unreadable' then return set_aside(item, pending) end
    if outcome == 'retry' or outcome == 'park' then
      return fail(item, outcome, own_limiter, priority, text, pending)
    end
    if outcome == 'after' or outcome == 'keep' then
      if outcome == 'after' then call('HDEL', failures, item) end
      defer(item, delay_of(own_limiter, 1), priority, pending and ready)
    elseif not pending and not call('ZSCORE', delayed, item) then
      call('HDEL', failures, item) -- done, and neither pending nor backing off
    end
  end
  -- An unreadable claim belongs to the session in `processing`.
  local function is_ours(item, claim, claim_fence)
    local session, fence = string.match(claim, '^(%d+) (%d+) ')
    if session == number then return fence == claim_fence end
    return call('ZSCORE', processing, item) == number
  end
  local items = {}
  for i = others + 1, #settlements, 6 do items[#items + 1] = settlements[i] end
  local held, was_dirty = call('HMGET', claims, unpack(items)), call('ZMSCORE', dirty, unpack(items))
  local settled, unclaim, let_go = {}, { 'HDEL', claims }, { 'ZREM', processing }
  for i = 1, #items do
    local at = others + 6 * i - 5
    local item, claim_fence, outcome, own_limiter, priority, text = unpack(settlements, at, at + 5)
    if outcome == 'limit' then
      local count, crashes, kept, claims_that_crashed = one_more(item, text)
      write_failure(item, count, crashes, now_text, '-', kept, claims_that_crashed)
      local pending = (call('ZSCORE', ready, item) and ready) or (call('ZSCORE', dirty, item) and dirty)
      pending = pending or (call('ZSCORE', suspects, item) and suspects)
      pending = pending or (bounded and call('ZSCORE', held_back, item) and held_back)
      local is_held = held[i] and not settled[item]
      defer(item, back_off(own_limiter, count), tonumber(priority), pending, is_held)
      call('ZREM', dead, item)
    elseif not settled[item] and is_ours(item, held[i] or '', claim_fence) then
      settle(item, known_order(string.match(held[i] or '', '%S+$')), was_dirty[i], outcome, own_limiter, priority, text)
      settled[item], unclaim[#unclaim + 1], let_go[#let_go + 1] = true, item, item
    else
      refused[#refused + 1] = n_ok + i
    end
  end
  if #unclaim > 2 then
    for i = 3, #unclaim do ended[#ended + 1] = unclaim[i] end
    call(unpack(unclaim))
    call(unpack(let_go))
  end
  keep_buckets()
  last_stamp = string.format('%d', stamp)
  --- @include dispositions
  n_failures = call('HLEN', failures)
  first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
