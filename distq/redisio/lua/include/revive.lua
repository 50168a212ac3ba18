  -- in: by_flow, dead, now, ready, revive_after
  -- out: revived
  -- What was parked so long ago, for a reason that time may mend, is pending again as of then, some at a time. As
  -- with what was delayed that is a full ms: what is none is the stamp of an add.
  --- @include parked
  local edge = TIME_MAY_MEND + now - revive_after
  local due = call('ZRANGEBYSCORE', dead, TIME_MAY_MEND, edge, 'WITHSCORES', 'LIMIT', 0, 100)
  if #due > 0 then
    --- @include order
    local to_ready, revive = { 'ZADD', ready, 'LT' }, { 'ZREM', dead }
    for i = 1, #due, 2 do
      local since = due[i + 1] - TIME_MAY_MEND + revive_after
      to_ready[#to_ready + 1] = order(0, since - since % 1000)
      to_ready[#to_ready + 1] = due[i]
      revive[#revive + 1] = due[i]
    end
    revived, revived_items = #revive - 2, { unpack(revive, 3) }
    call(unpack(revive))
    if by_flow then by_flow(to_ready) end
    call(unpack(to_ready))
  end
