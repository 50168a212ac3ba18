-- in: cache, index, older, terms
-- out: drop_markers, put_all, read_terms
-- For each object, `terms` has its version and a line per index term, and `cache` its version and bytes: so short
-- values are compared without the long ones. A marker records a deleted object; its only term is `gone`.
local function read_terms(line) return string.match(line or '', '^(%d+)\n(.*)') end
local function add_members(words, name, found_by, score)
  for term in string.gmatch(found_by or '', '[^\n]+') do
    words[#words + 1] = score -- nil if members are removed
    words[#words + 1] = term .. '\0' .. name
  end
end
-- Put each (name, terms, record) of `records`, from the index `from`, unless a newer version is stored; no name may
-- occur twice. `stored` has the present lines of these names in `terms`. A marker that the stream has passed is not
-- stored: no older event of its object can follow.
local function put_all(records, from, stored, passed)
  local from_cache, from_terms, from_index, to_index = { 'HDEL', cache }, { 'HDEL', terms }, {}, {}
  local to_cache, to_terms = { 'HSET', cache }, { 'HSET', terms }
  for i = from, #records, 3 do
    local name, line, record = records[i], records[i + 1], records[i + 2]
    local version, found_by = read_terms(line)
    local stored_version, stored_found_by = read_terms(stored[(i - from) / 3 + 1])
    if not older(version, stored_version or '') then
      if found_by == 'gone' then
        from_cache[#from_cache + 1] = name
      else
        to_cache[#to_cache + 1], to_cache[#to_cache + 2] = name, record
      end
      if found_by == 'gone' and not older(passed, version) then
        found_by = ''
        from_terms[#from_terms + 1] = name
      else
        to_terms[#to_terms + 1], to_terms[#to_terms + 2] = name, line
      end
      if found_by ~= stored_found_by then
        add_members(from_index, name, stored_found_by)
        add_members(to_index, name, found_by, '0')
      end
    end
  end
  -- if memory is full, Redis refuses the puts, and the script ends before the other commands
  for _, command in ipairs({ to_cache, to_terms, from_cache, from_terms }) do
    if #command > 2 then call(unpack(command)) end
  end
  -- 1000 words at a time: Lua can unpack only some thousands
  for first = 1, #from_index, 1000 do
    call('ZREM', index, unpack(from_index, first, math.min(first + 999, #from_index)))
  end
  for first = 1, #to_index, 1000 do
    call('ZADD', index, unpack(to_index, first, math.min(first + 999, #to_index)))
  end
end
-- Delete markers that the stream has passed, at most a hundred per call.
local function drop_markers(passed)
  for _, member in ipairs(call('ZRANGEBYLEX', index, '[gone\0', '(gone\1', 'LIMIT', '0', '100')) do
    local name = string.sub(member, 6)
    local version, found_by = read_terms(call('HGET', terms, name))
    local is_marker = found_by == 'gone'
    if is_marker and not older(passed, version) then call('HDEL', terms, name) end
    if not is_marker or not older(passed, version) then call('ZREM', index, member) end
  end
end
