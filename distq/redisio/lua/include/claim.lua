-- Claim from the head of the queue. A suspect goes to a session that holds nothing else, so that poison kills no
-- siblings; what stands before it goes first.
local asked = want
local fleet = tonumber(fleet_concurrency)
if fleet then want = math.max(0, math.min(want, fleet - call('ZCARD', processing))) end
if paused then want = 0 end
local popped, records, alone, promoted = {}, false, 0, 0
if want > 0 then
  --- @include promote
  popped = call('ZPOPMIN', ready, want)
end
if #popped > 0 and n_failures > 0 then
  --- @include suspect
  local names, keep = {}, #popped / 2
  for i = 1, keep do names[i] = popped[2 * i - 1] end
  records = call('HMGET', failures, unpack(names))
  for i, failure in ipairs(records) do
    if is_suspect(failure) then
      keep = i - 1
      if i == 1 then
        alone = 1
        keep = call('ZCOUNT', processing, number, number) == 0 and 1 or 0
      end
      break
    end
  end
  for i = #names, keep + 1, -1 do
    call('ZADD', ready, table.remove(popped), table.remove(popped))
    records[i] = nil
  end
end
if #popped > 0 then
  local claim, hold = { 'HSET', claims }, { 'ZADD', processing }
  local prefix = number .. ' ' .. fence .. ' '
  for i = 1, #popped, 2 do
    claim[i + 2], claim[i + 3] = popped[i], prefix .. popped[i + 1]
    hold[i + 2], hold[i + 3] = number, popped[i]
  end
  call(unpack(claim))
  call(unpack(hold))
end
