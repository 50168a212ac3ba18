-- in: delayed, dirty, ready
-- out: put_back
-- As if never claimed: back where it stood, merged with what was added meanwhile; being ready supersedes a delay.
local function put_back(item, score)
  local newer = call('ZSCORE', dirty, item)
  if newer then
    call('ZREM', dirty, item)
    score = math.min(tonumber(newer), score)
  end
  call('ZREM', delayed, item)
  call('ZADD', ready, 'LT', score, item)
end
