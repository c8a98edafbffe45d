class Shell {}
