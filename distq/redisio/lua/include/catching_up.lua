  -- in: catching_up, meta
  -- out: paused
  -- While the watches of a leader catch up, a turn acts as if the queue were paused, until the leader's timeout.
  --- @include within_a_day
  if within_a_day(string.match(catching_up, ' (%d+)$')) then
    paused = catching_up
  else
    call('HDEL', meta, 'catching_up')
  end
