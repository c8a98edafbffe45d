class Json {}
