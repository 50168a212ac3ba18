  -- in: catching_up, meta, now
  -- out: paused
  -- While the watches of a term catch up, a turn does as where the queue is paused; no longer than the leader said.
  if now < (tonumber(string.match(catching_up, ' (%d+)$')) or 0) then
    paused = catching_up
  else
    call('HDEL', meta, 'catching_up')
  end
