-- Run reads at one moment: each is how many words it has, and these. Returns their replies; in the place of one that is
-- refused stands why, and where the type of its key is the cause, only that type.
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
