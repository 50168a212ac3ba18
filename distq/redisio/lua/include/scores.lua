-- in: nothing
-- out: scores
-- Return the scores of the items that are in a sorted set, by item. A small set is a list, which Redis searches from
-- its beginning for each item: if the set has at most as many members as there are items, read all members instead.
local function scores(key, items)
  if #items == 1 then return { [items[1]] = call('ZSCORE', key, items[1]) } end
  local found, asked, size = {}, items, call('ZCARD', key)
  if size <= #items then
    local there = {}
    for _, member in ipairs(size > 0 and call('ZRANGE', key, '0', '-1') or {}) do there[member] = true end
    asked = {}
    for i = 1, #items do
      if there[items[i]] then asked[#asked + 1] = items[i] end
    end
    if #asked == 0 then return found end
  end
  local all = call('ZMSCORE', key, unpack(asked))
  for i = 1, #asked do found[asked[i]] = all[i] end
  return found
end
