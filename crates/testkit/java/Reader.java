class Reader {}
