  local now_text = string.format('%.0f', now)
  --- @include order
  --- @include due
  --- @include failure
  --- @include put_back
  --- @include defer
  --- @include limiter
  --- @include fate
  local function priority_of(score)
    local _, exponent = math.frexp(score)
    return 53 - exponent
  end
  local function first_line(text) return string.match(text, '^[^\n]*') end
  local function count_failure(item, text)
    local count, crashes, _, _, last = read_failure(item)
    -- who only asks for a delay has nothing to say about why
    write_failure(item, count + 1, crashes, now_text, '-', first_line(text ~= '' and text or last))
    return count + 1, crashes
  end
  local function due_after(own_limiter, count)
    return now + delay_of(own_limiter ~= '' and own_limiter or limiter, count)
  end
  local function fail(item, outcome, own_limiter, priority, text, pending)
    local count, crashes = count_failure(item, text)
    local spent = max_retries ~= '' and count > tonumber(max_retries)
    if outcome == 'park' or spent then
      if pending or not park(item) then return end
      return write_failure(item, count, crashes, now_text, outcome == 'park' and 'terminal' or 'retries', text)
    end
    local due = due_after(own_limiter, count)
    defer(item, due, priority)
  end
  local function settle(item, outcome, own_limiter, priority, text)
    local score = string.match(call('HGET', claims, item), '%S+$')
    priority = tonumber(priority) or priority_of(tonumber(score))
    unclaim(item)
    if outcome == 'release' then return put_back(item, score) end
    local pending = call('ZSCORE', dirty, item)
    if pending then
      call('ZREM', dirty, item)
      call('ZADD', ready, 'LT', pending, item)
    end
    if outcome == 'retry' or outcome == 'park' then
      return fail(item, outcome, own_limiter, priority, text, pending)
    end
    if outcome == 'after' then
      call('HDEL', failures, item)
      defer(item, now + delay_of(own_limiter, 1), priority)
    elseif not pending and not call('ZSCORE', delayed, item) then
      call('HDEL', failures, item) -- done, and nothing left that would back off
    end
  end
  for i = others + 1, #settlements, 6 do
    local item, claim_fence, outcome, own_limiter, priority, text = unpack(settlements, i, i + 5)
    local prefix = number .. ' ' .. claim_fence .. ' '
    if outcome == 'limit' then
      defer(item, due_after(own_limiter, (count_failure(item, text))), tonumber(priority))
      call('ZREM', dead, item)
    elseif string.sub(call('HGET', claims, item) or '', 1, #prefix) == prefix then
      settle(item, outcome, own_limiter, priority, text)
    else
      refused[#refused + 1] = n_ok + (i - others + 5) / 6
    end
  end
  for i = others + 1, #settlements, 6 do fates[#fates + 1] = fate(settlements[i]) end
  n_failures = call('HLEN', failures)
  first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
