  -- in: catching_up, meta, now
  -- out: paused
  -- While the watches of a leader catch up, a turn acts as if the queue were paused, until the leader's timeout.
  if now < (tonumber(string.match(catching_up, ' (%d+)$')) or 0) then
    paused = catching_up
  else
    call('HDEL', meta, 'catching_up')
  end
