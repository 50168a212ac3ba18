-- in: history, said, worker
-- out: count_settled
-- Add to the queue's totals what a session settled since its process last described itself: they outlive sessions.
-- What a process says of itself is JSON as Python writes it.
local function count_settled()
  local function more(name)
    local pattern = '"' .. name .. '": (%d+)'
    local before, after = tonumber(string.match(said or '', pattern)), tonumber(string.match(worker, pattern))
    return before and after and math.max(0, after - before) or 0
  end
  local done, failed = more('done'), more('failed')
  if done + failed == 0 then return end
  local total_done, total_failed = string.match(call('HGET', history, 'totals') or '', '^(%d+) (%d+)$')
  local function sum(total, settled)
    total = (tonumber(total) or 0) + settled
    return total < 2 ^ 53 and total or 0
  end
  local totals = string.format('%.0f %.0f', sum(total_done, done), sum(total_failed, failed))
  call('HSET', history, 'totals', totals)
end
