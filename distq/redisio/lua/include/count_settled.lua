-- in: history, worker, worker_before
-- out: count_settled
-- Add the settlements since the process last described itself to the queue's totals, which outlive sessions. Add the
-- durations for which items waited and were held to the counts that each ring writes with its next sample. `worker` and
-- `worker_before` are JSON as Python writes it.
local function count_settled()
  local function both(name, value)
    local pattern = '"' .. name .. '": ' .. value
    return string.match(worker_before or '', pattern), string.match(worker, pattern)
  end
  local function more(name)
    local before, after = both(name, '(%d+)')
    before, after = tonumber(before), tonumber(after)
    return before and after and math.max(0, after - before) or 0
  end
  local done, failed = more('done'), more('failed')
  local waiting, waiting_now = both('waiting', '"([%w-]*)"')
  local working, working_now = both('working', '"([%w-]*)"')
  if done + failed == 0 and waiting == waiting_now and working == working_now then return end
  -- a word has a letter for each range of durations, and the number of durations in it
  local function counts(word)
    local found = {}
    for letter, count in string.gmatch(word, '(%l)(%d+)') do found[letter] = tonumber(count) end
    return found
  end
  local function grown(word, before, after)
    local sums, parts = counts(word), {}
    local old, new = counts(before or ''), before and after and counts(after) or {}
    for byte = 97, 122 do
      local letter = string.char(byte)
      local sum = (sums[letter] or 0) + math.max(0, (new[letter] or 0) - (old[letter] or 0))
      if sum > 0 and sum < 2 ^ 53 then parts[#parts + 1] = string.format('%s%.0f', letter, sum) end
    end
    return #parts > 0 and table.concat(parts) or '-'
  end
  local function longer(durations)
    local waited, worked = string.match(durations or '', '^(%S+) (%S+)$')
    return grown(waited or '', waiting, waiting_now) .. ' ' .. grown(worked or '', working, working_now)
  end
  local totals, fine, coarse = unpack(call('HMGET', history, 'totals', '10s durations', '5m durations'))
  local total_done, total_failed = string.match(totals or '', '^(%d+) (%d+)$')
  local function sum(total, settled)
    total = (tonumber(total) or 0) + settled
    return total < 2 ^ 53 and total or 0
  end
  totals = string.format('%.0f %.0f', sum(total_done, done), sum(total_failed, failed))
  call('HSET', history, 'totals', totals, '10s durations', longer(fine), '5m durations', longer(coarse))
end
