-- in: terms
-- out: stored_terms
-- What `terms` has of each object of `records`, which has (name, terms, record) each from `from` on; false where there
-- is nothing. Nil where this and what is to come have more than `most` bytes: of twenty at a time, since one may have many.
local function stored_terms(records, from, most)
  local stored, n, bytes = {}, 0, 0
  for first = from, #records, 60 do
    local names = {}
    for i = first, math.min(first + 57, #records), 3 do
      names[#names + 1] = records[i]
      bytes = bytes + #records[i + 1]
    end
    local lines = call('HMGET', terms, unpack(names))
    for i = 1, #names do
      local line = lines[i]
      n = n + 1
      stored[n] = line
      bytes = bytes + #(line or '')
    end
    if bytes > most then return nil end
  end
  return stored
end
