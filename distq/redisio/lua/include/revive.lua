  -- in: by_flow, dead, now, ready, revive_after
  -- out: revived
  -- Make dead items pending again, some per call, `revive_after` µs after they were parked, if waiting may help. They
  -- are pending since that time, in full ms as after a delay: a time that is no full ms is the stamp of an add.
  --- @include parked
  local edge = WAITING_MAY_HELP + now - revive_after
  local due = call('ZRANGEBYSCORE', dead, WAITING_MAY_HELP, edge, 'WITHSCORES', 'LIMIT', 0, 100)
  if #due > 0 then
    --- @include order
    local to_ready, revive = { 'ZADD', ready, 'LT' }, { 'ZREM', dead }
    for i = 1, #due, 2 do
      local since = due[i + 1] - WAITING_MAY_HELP + revive_after
      to_ready[#to_ready + 1] = order(0, since - since % 1000)
      to_ready[#to_ready + 1] = due[i]
      revive[#revive + 1] = due[i]
    end
    revived, revived_items = #revive - 2, { unpack(revive, 3) }
    call(unpack(revive))
    if by_flow then by_flow(to_ready) end
    call(unpack(to_ready))
  end
