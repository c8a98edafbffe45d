class Records {}
