-- in: cache, index, older
-- out: drop_markers, put_all, read_head
-- A record is an object's version, a line for each term that finds it in the index, an empty line, and its bytes. A
-- marker stands for an object that is gone; the term `gone` alone finds it.
local function read_head(record) return string.match(record or '', '^(%d+)\n(.-)\n\n') end
local function add_members(members, name, terms)
  for term in string.gmatch(terms or '', '[^\n]+') do members[#members + 1] = term .. '\0' .. name end
end
-- Put each (name, record), no name twice, unless what is there is newer. A marker that the stream has passed already
-- leaves nothing: no older event of its object can come any more.
local function put_all(records, passed)
  local names = {}
  for i = 1, #records, 2 do names[#names + 1] = records[i] end
  local stored, to_cache, from_cache = call('HMGET', cache, unpack(names)), { 'HSET', cache }, { 'HDEL', cache }
  local from_index, to_index = {}, {}
  for i, name in ipairs(names) do
    local record = records[2 * i]
    local version, terms = read_head(record)
    local stored_version, stored_terms = read_head(stored[i])
    if not older(version, stored_version or '') then
      if terms == 'gone' and not older(passed, version) then
        terms = ''
        from_cache[#from_cache + 1] = name
      else
        to_cache[#to_cache + 1], to_cache[#to_cache + 2] = name, record
      end
      if terms ~= stored_terms then
        add_members(from_index, name, stored_terms)
        add_members(to_index, name, terms)
      end
    end
  end
  -- where memory is full the puts are refused, and with them what comes after
  if #to_cache > 2 then call(unpack(to_cache)) end
  if #from_cache > 2 then call(unpack(from_cache)) end
  for _, member in ipairs(from_index) do call('ZREM', index, member) end
  for _, member in ipairs(to_index) do call('ZADD', index, '0', member) end
end
-- Drop markers that the stream has passed, a hundred at a time.
local function drop_markers(passed)
  for _, member in ipairs(call('ZRANGEBYLEX', index, '[gone\0', '(gone\1', 'LIMIT', '0', '100')) do
    local name = string.sub(member, 6)
    local version, terms = read_head(call('HGET', cache, name))
    local is_marker = terms == 'gone'
    if is_marker and not older(passed, version) then call('HDEL', cache, name) end
    if not is_marker or not older(passed, version) then call('ZREM', index, member) end
  end
end
