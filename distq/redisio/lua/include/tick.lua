-- Ten times a second at most, move the claim clock and take back what lapsed sessions held.
-- The clock advances at most `gap` between two looks, so that silence (an outage, a freeze, a step of TIME)
-- expires nobody.
local function take_back(number, room)
  local items = call('ZRANGEBYSCORE', processing, number, number, 'LIMIT', 0, room)
  -- closing a session drops its record: that is no crash; nor is it one when everybody was away
  local crashed = call('HEXISTS', meta, number) == 1 and call('ZCOUNT', sessions, '(' .. clock_text, '+inf') > 0
  for _, item in ipairs(items) do
    local score = string.match(call('HGET', claims, item) or '', '%S+$') or order(0, now)
    unclaim(item)
    local parked = false
    if crashed then
      local count, crashes, failed_at, reason, text = read_failure(item)
      crashes = crashes + 1
      parked = crashes >= 3 and park(item)
      if parked then
        failed_at, reason, text = now_text, 'crashes', 'its workers died ' .. crashes .. ' times'
      end
      write_failure(item, count, crashes, failed_at, reason, text)
    end
    if not parked then put_back(item, score) end
  end
  if #items < room then
    call('ZREM', sessions, number)
    call('HDEL', meta, number)
    call('HDEL', workers, number)
  elseif crashed then
    call('HSET', meta, number, 'lapsed')
  else
    call('HDEL', meta, number)
  end
  return #items
end
local function tick()
  local last_look = tonumber(seen or now)
  if seen and now >= last_look and now - last_look < 100000 then return end
  if now > last_look then clock = clock + math.min(now - last_look, tonumber(gap)) end
  clock_text = string.format('%.0f', clock)
  call('HSET', meta, 'seen', now, 'clock', clock)
  local room = 100
  for _, number in ipairs(call('ZRANGEBYSCORE', sessions, '-inf', clock_text, 'LIMIT', 0, 100)) do
    room = room - take_back(number, room)
    if room <= 0 then break end
  end
  if room < 100 and not paused and tokens == 0 then tokens = call('RPUSH', wake, 1) end
end
