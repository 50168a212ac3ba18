  -- in: now
  -- out: want
  -- A turn that was sent ahead, behind a pop: it wants `N until T`. Its process sends another one before that time, or
  -- is gone; a turn that comes later claims nothing.
  local many, latest = string.match(ARGV[5], '^(%d+) until (%d+)$')
  want = now <= tonumber(latest) and tonumber(many) or 0
