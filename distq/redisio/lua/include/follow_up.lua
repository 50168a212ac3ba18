  -- in: now
  -- out: tokens, want
  -- A follow-up turn, which was sent behind a pop, wants `N until T`. After the time T it claims nothing: its process
  -- makes another turn at once, or is gone. The token that its pop took counts as still there, so that it wakes no other
  -- consumer: that one may be late, too, and so would one after another wake the whole fleet.
  local many, latest = string.match(ARGV[5], '^(%d+) until (%d+)$')
  want = tonumber(many)
  if now > tonumber(latest) then want, tokens = 0, 1 end
