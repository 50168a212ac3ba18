-- Make one item pending at `due`: the earliest of several delays wins, and the highest priority.
-- What is pending now stays so and can only be raised.
local function due_score(due, priority) return math.ceil(due / 1000) * 2048 + 1023 - priority end
local function defer(item, due, priority)
  for _, pending in ipairs({ ready, dirty }) do
    if call('ZSCORE', pending, item) then
      call('ZADD', pending, 'XX', 'LT', order(priority, stamp), item)
      return
    end
  end
  local own = call('ZSCORE', delayed, item)
  if own then
    local own_due, own_priority = split_due(tonumber(own))
    -- what is due is pending now, noticed or not: a raise moves it to the end of its new level
    if own_due <= now and priority > own_priority then own_due = now - now % 1000 end
    due, priority = math.min(due, own_due), math.max(priority, own_priority)
  end
  call('ZADD', delayed, due_score(due, priority), item)
end
