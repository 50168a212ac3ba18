-- in: stamp
-- out: stamp
-- The last stamp. A value that is no number, or not of this age, counts as none: the clock is ahead of all stamps so
-- far.
stamp = tonumber(stamp)
if not stamp or not (stamp >= 0 and stamp < 2 ^ 52) then stamp = 0 end
