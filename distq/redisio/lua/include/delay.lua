-- in: now, split_due
-- out: due_score
-- The score of an item that is to be pending at `due` and perhaps was to be before: the earliest of several delays
-- wins, and the highest priority.
local function due_score(own, due, priority)
  if own then
    local own_due, own_priority = split_due(tonumber(own))
    -- what is due is pending now, noticed or not: a raise moves it to the end of its new level
    if own_due <= now and priority > own_priority then own_due = now - now % 1000 end
    due, priority = math.min(due, own_due), math.max(priority, own_priority)
  end
  return math.ceil(due / 1000) * 2048 + 1023 - priority
end
