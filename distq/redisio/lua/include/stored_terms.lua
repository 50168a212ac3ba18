-- in: terms
-- out: stored_terms
-- Return the line in `terms` of each object of `records`, (name, terms, record) each, from the index `from`; false if
-- there is none. Return nil if the old and the new lines have more than `most` bytes. Read twenty at a time: an object
-- may have many.
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
