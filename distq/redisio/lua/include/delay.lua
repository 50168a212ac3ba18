-- in: now, split_due
-- out: due_score
-- Return the delayed score of an item that is to become pending at `due`; `own` is its present delayed score, if any.
-- The earlier due time and the higher priority win.
local function due_score(own, due, priority)
  if own then
    local own_due, own_priority = split_due(tonumber(own))
    -- a due item is pending, even if not promoted yet: a raise moves it to the end of its new level
    if own_due <= now and priority > own_priority then own_due = now - now % 1000 end
    due, priority = math.min(due, own_due), math.max(priority, own_priority)
  end
  return math.ceil(due / 1000) * 2048 + 1023 - priority
end
