-- Whether a process listens to the channel of a term on this server. ARGV: channel without the server.
local answering = server()
return {redis.call('PUBSUB', 'NUMSUB', ARGV[1] .. answering)[2], answering}
