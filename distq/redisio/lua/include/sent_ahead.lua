  -- in: now
  -- out: tokens, want
  -- A turn that was sent ahead, behind a pop: it wants `N until T`. A turn that comes later claims nothing: its process
  -- makes another one at once, or is gone. And it wakes no consumer in place of the token that the pop took, as if that was
  -- still there: otherwise it would wake the next consumer that waits for as long, and that one another.
  local many, latest = string.match(ARGV[5], '^(%d+) until (%d+)$')
  want = tonumber(many)
  if now > tonumber(latest) then want, tokens = 0, 1 end
