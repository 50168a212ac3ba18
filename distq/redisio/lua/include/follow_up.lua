  -- in: now
  -- out: tokens, want
  -- A follow-up turn, which is sent behind a pop of `wake`, wants `N until T`. After the time T it claims nothing: its
  -- process makes another turn at once, or is gone. The token that its pop took counts as present, so that this turn
  -- wakes no other consumer. Otherwise that one could be late, too, and one after another they would wake the whole
  -- fleet.
  local many, latest = string.match(ARGV[5], '^(%d+) until (%d+)$')
  want = tonumber(many)
  if now > tonumber(latest) then want, tokens = 0, 1 end
