-- Run reads at one moment: each is how many words it has, and these. Returns their replies.
local call = redis.call
local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies
