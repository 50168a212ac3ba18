-- Run reads at one moment; a read is its number of words, then the words. Returns their replies. The reply of a refused
-- read is its error; for a key of a wrong type, the error has only WRONGTYPE and the type.
local call = redis.call
local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
  if type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE') then
    local found = redis.pcall('TYPE', ARGV[at + 2])
    if found.ok then reply = { err = 'WRONGTYPE ' .. found.ok } end
  end
  replies[#replies + 1] = reply
  at = at + words + 1
end
return replies
